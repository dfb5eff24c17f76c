"""Questions to the history, where there is one."""

import asyncio
import time
from pathlib import Path

from waystation.console.search.query import PastJob, Query

AT_ONCE = 2
"""Questions that are answered at a time; the others wait."""


class History:
    """The history at a place; asks it in threads, a few at a time."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._turns = asyncio.Semaphore(AT_ONCE)

    @property
    def is_there(self) -> bool:
        """Whether anything has been kept."""
        return bool(self._root) and Path(self._root).is_dir()

    async def search(self, query: Query, limit: int) -> tuple[list[PastJob], float] | None:
        """The jobs that fit and the milliseconds it took; None without a history."""
        if not self.is_there:
            return None
        try:
            # Those who keep no history need not install what reads it.
            from waystation.console.search import past_jobs
        except ModuleNotFoundError:
            return None
        async with self._turns:
            began = time.monotonic()
            found = await asyncio.to_thread(past_jobs.find, self._root, query, limit)
        return found, round((time.monotonic() - began) * 1000, 1)
