"""Health: whether a process is ready for work, for /readyz."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from waystation.core.errors import StoreError
from waystation.core.store.connection import Store

_PATIENCE_S = 2.0
"""A store that takes longer to answer a ping is not one to send work to."""


class Works(Protocol):
    """A part of a process that can end before the process does."""

    @property
    def is_running(self) -> bool:
        """Whether it is at work."""
        ...


class Health:
    """Answers /readyz: not before the process has started, and while its store answers."""

    def __init__(self) -> None:
        self._store: Store | None = None
        self._running: Sequence[Works] = ()

    def watch(self, store: Store, running: Sequence[Works] = ()) -> None:
        """Be ready from now on, while the store answers and all of these run."""
        self._store = store
        self._running = running

    async def __call__(self) -> dict[str, bool]:
        """What has to be well, and whether it is."""
        if self._store is None:
            return {"started": False}
        checks = {"store": await _answers(self._store)}
        if self._running:
            checks["workers"] = all(each.is_running for each in self._running)
        return checks


async def _answers(store: Store) -> bool:
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await store.ask("PING")
    except (StoreError, TimeoutError):
        return False
    return True
