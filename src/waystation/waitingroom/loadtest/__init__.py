"""A crowd in front of a room's real doors, over HTTP and in real time."""

from waystation.waitingroom.loadtest.visits import Visits

__all__ = ["Visits"]
