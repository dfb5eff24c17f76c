"""Load test: simulated visitors at a real HTTP server, in real time."""

from benchmarks.room.loadtest.visits import Visits

__all__ = ["Visits"]
