"""A small shop with a waiting room in front of its checkout."""
