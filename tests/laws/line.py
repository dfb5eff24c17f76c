"""What a line must offer to be held to the laws."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol, TypeAlias

from waystation.core.runtime.claim import Source

State: TypeAlias = Literal["waiting", "active", "delayed", "completed", "failed"]


class Line(Protocol):
    """One line of work, seen from outside."""

    async def add(self, *, attempts: int = 1, backoff_ms: int = 0) -> str:
        """Put one piece of work at the end and return its id."""
        ...

    def source(self) -> Source[Any]:
        """The line as one more worker sees it."""
        ...

    async def state(self, id: str) -> State:
        """Where the work is now."""
        ...

    async def pass_time(self, ms: int) -> None:
        """Let time pass for whatever waits for it."""
        ...

    async def lapse_leases(self) -> None:
        """Let every lease that is held now run out, and have the line notice."""
        ...


OpenLine: TypeAlias = Callable[[str], AbstractAsyncContextManager[Line]]
"""Opens a line on the store at this URL, which is empty."""
