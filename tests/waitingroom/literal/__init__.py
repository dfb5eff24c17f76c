"""The spec's own scripts, word for word, to show what goes wrong with them."""
