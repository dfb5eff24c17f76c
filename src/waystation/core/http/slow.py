"""Limit on the request bodies of one client that are slow to come."""

import asyncio
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from waystation.core.http.addresses import client_of

QUICK_S = 1.0
"""How long a body may be under way before it counts as slow."""
MOST_SLOW = 20
"""Slow bodies of one client at a time; those beyond get no longer than a quick one."""


class SlowBodies:
    """The slow bodies that one process waits for, by client."""

    def __init__(self, most: int = MOST_SLOW, quick_s: float = QUICK_S) -> None:
        self._most = most
        self._quick_s = quick_s
        self._under_way = Counter[str]()

    @contextmanager
    def counted(self, address: str, limit: asyncio.Timeout) -> Generator[None]:
        """Count the body that the block waits for, and end its time if it is one too many."""
        loop = asyncio.get_running_loop()
        counted: list[str] = []

        def count() -> None:
            client = client_of(address)
            counted.append(client)
            self._under_way[client] += 1
            if self._under_way[client] > self._most:
                limit.reschedule(loop.time())

        timer = loop.call_later(self._quick_s, count)
        try:
            yield
        finally:
            timer.cancel()
            for client in counted:
                self._under_way[client] -= 1
                if not self._under_way[client]:
                    del self._under_way[client]
