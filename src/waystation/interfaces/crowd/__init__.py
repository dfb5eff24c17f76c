"""A crowd in front of a room's real doors, over HTTP and in real time."""

from .visits import Visits

__all__ = ["Visits"]
