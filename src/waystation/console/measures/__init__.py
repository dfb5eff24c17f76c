"""Measures: how many jobs wait and how fast they move, and what the store has to say of itself."""
