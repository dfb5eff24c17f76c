"""The console: one place to look at all products, ask about them and act on them."""
