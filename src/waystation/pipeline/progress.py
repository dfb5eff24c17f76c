"""Progress of a long operation, as a caller may show it."""

from typing import Protocol


class Progress(Protocol):
    """Receives how far a long operation has come."""

    def begin(self, what: str, total: int | None = None) -> None:
        """Begin a stage that has `total` parts, if that is known."""
        ...

    def reach(self, done: int) -> None:
        """Record that this many parts of the stage are done."""
        ...


class NoProgress:
    """Shows nothing."""

    def begin(self, what: str, total: int | None = None) -> None:
        """Ignore it."""

    def reach(self, done: int) -> None:
        """Ignore it."""
