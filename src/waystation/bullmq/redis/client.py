"""Queue clients: objects that work on one queue. Internal."""

import base64
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from waystation.bullmq.redis.keys import PREFIX, QueueKeys
from waystation.core.store.client import StoreClient
from waystation.core.store.connection import Store
from waystation.core.store.script import Client

Connect: TypeAlias = Callable[[], Awaitable[tuple[Client, QueueKeys]]]
"""Connects a part of a queue, such as `queue.limits`: a client, and the queue's keys."""


class QueueClient(StoreClient):
    """An object that works on one queue."""

    def __init__(self, name: str, url: str | Store | None = None, *, prefix: str = PREFIX) -> None:
        super().__init__(url)
        self._keys = QueueKeys(name, prefix=prefix)

    async def _connect_queue(self) -> tuple[Client, QueueKeys]:
        return (await self._connected()).hot, self._keys

    async def _connect_durably(self) -> tuple[Client, QueueKeys]:
        """For what must be on a replica as well before it counts, where that is asked for."""
        return (await self._connected()).durable, self._keys

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._keys.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._keys.qualified!r})"


def client_name(keys: QueueKeys, suffix: str = "") -> str:
    """The name that BullMQ's dashboards look for."""
    return f"{keys.prefix}:{base64.b64encode(keys.name.encode()).decode()}{suffix}"
