"""Handlers that drills are tried on."""
