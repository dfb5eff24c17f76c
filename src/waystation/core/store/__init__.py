"""Talking to Redis: one way to connect, to name keys, and to take an atomic step."""
