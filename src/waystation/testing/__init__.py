"""Tools for tests of your own handlers and producers."""

from waystation.core.clock import HandClock
from waystation.testing.memory import Entry, MemorySource

__all__ = ["Entry", "HandClock", "MemorySource"]
