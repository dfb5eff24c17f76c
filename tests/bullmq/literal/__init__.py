"""The spec's own scripts, word for word, as something to fail."""
