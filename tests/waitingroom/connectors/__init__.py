"""Connectors, as their pages tell to use them."""
