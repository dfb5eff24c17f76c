"""The queues of a store, found by its keys."""

import asyncio
import time

from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.redis.prefixes import Prefixes
from waystation.console.names import readable_names
from waystation.console.options import ConsoleOptions
from waystation.console.products.bullmq import BullmqQueue
from waystation.console.products.bullmq_workers import Connections
from waystation.console.products.files import FilesQueue
from waystation.console.products.queue import ConsoleQueue
from waystation.console.products.routing import RoutingQueue
from waystation.core.errors import NotFound, StoreUnsuitable
from waystation.core.store.connection import Store

MOST_QUEUES = 2000
"""Queues of a prefix that the console follows all the time; the others open by their address."""
SHARE = 0.01
"""The part of the store's time that looking for queues may take."""
A_KEY_S = 0.5e-6
"""About how long the store takes to look at one key."""
SOONEST_S = 2.0


class Directory:
    """All queues of a store.

    Nothing lists BullMQ's queues, so the keys are scanned, a piece at a time: seldom where there
    are many keys, often where there are few.
    """

    def __init__(
        self, store: Store, options: ConsoleOptions, *, most: int | None = MOST_QUEUES
    ) -> None:
        self._store = store
        self._most = most
        self.left_out = 0
        """Queues that are there and not among those that are known."""
        self.forbidden: list[str] = []
        """Keys of other products that this user of the store may not read."""
        self.prefixes = Prefixes(tuple(options.prefixes))
        self._found: dict[tuple[str, str], ConsoleQueue] = {}
        self._fixed = [
            *(RoutingQueue(store, name) for name in options.namespaces),
            *(FilesQueue(store, layout) for layout in options.layouts),
        ]
        self._connections = Connections(store)
        self._next_look = 0.0
        self._looking = asyncio.Lock()

    def every(self) -> list[ConsoleQueue]:
        """The queues that are known, by product and name."""
        return [self._found[key] for key in sorted(self._found)]

    async def find(self, product: str, name: str) -> ConsoleQueue:
        """The queue of this name; NotFound when there is none."""
        if known := self._found.get((product, name)):
            return known
        if product == BullmqQueue.product:
            keys = self.prefixes.keys_of(name)
            if keys is not None and await self._store.ask("EXISTS", keys.meta):
                return self._opened(keys)
        for each in self._fixed:
            if (each.product, each.name) == (product, name):
                return each
        others = self.prefixes.every[1:] if product == BullmqQueue.product else ()
        meant = f"; one under another prefix is named as {others[0]}:NAME" if others else ""
        raise NotFound(f"there is no such queue{meant}")

    async def look_if_due(self) -> None:
        """Look for queues, unless that was done lately."""
        if time.monotonic() < self._next_look or self._looking.locked():
            return
        async with self._looking:
            await self.look()
            keys = int(await self._store.ask("DBSIZE"))
            self._next_look = time.monotonic() + max(SOONEST_S, keys * A_KEY_S / SHARE)

    async def look(self) -> None:
        """Look through all keys once."""
        seen, left_out = set[tuple[str, str]](), 0
        self.forbidden.clear()
        for prefix in self.prefixes.every:
            try:
                names = await readable_names(self._store, prefix)
            except StoreUnsuitable:
                self.forbidden.append(f"{prefix}:*")
                continue
            left_out += len(names) - len(names[: self._most])
            for name in names[: self._most]:
                opened = self._opened(QueueKeys(name, prefix=prefix))
                seen.add((opened.product, opened.name))
        for each in self._fixed:
            try:
                if not await each.exists():
                    continue
            except StoreUnsuitable:
                self.forbidden.append(f"{each.name}:*")
                continue
            self._found[each.product, each.name] = each
            seen.add((each.product, each.name))
        for key in [key for key in self._found if key not in seen]:
            del self._found[key]
        self.left_out = left_out

    def _opened(self, keys: QueueKeys) -> ConsoleQueue:
        key = (BullmqQueue.product, self.prefixes.shown(keys))
        if key not in self._found:
            self._found[key] = BullmqQueue(
                self._store, keys, prefixes=self.prefixes, connections=self._connections
            )
        return self._found[key]
