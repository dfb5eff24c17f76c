"""What holds for every script of every product."""
