"""Walks through a product that make every one of its scripts do what it can."""
