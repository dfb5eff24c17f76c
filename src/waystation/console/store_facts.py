"""Facts about the store: memory, load, slow commands by the names of our scripts."""

import asyncio
import time
from collections.abc import Sequence
from functools import cache
from typing import Any, cast

import msgspec

from waystation.console.products.queue import ConsoleQueue, alone
from waystation.core.errors import WaystationError
from waystation.core.store import faults
from waystation.core.store.connection import Store
from waystation.core.store.script.declaration import LuaScript

_LONGEST = 40


def command(words: Sequence[bytes]) -> str:
    """A command without what it was about, which may be anybody's; a script of ours by its name."""
    if not words:
        return ""
    name = words[0].decode("utf-8", "replace").upper()[:_LONGEST]
    if name not in ("EVALSHA", "EVALSHA_RO") or len(words) < 2:
        return name
    known = _names().get(words[1].decode("ascii", "replace").lower())
    return f"{name} {known}" if known else f"{name} of another library"


@cache
def _names() -> dict[str, str]:
    # A console has loaded every product, and with it all its scripts.
    return {
        each.sha: f"{each.__wrapped__.__module__.split('.')[1]} {each.name}"
        for each in LuaScript.every
    }


SLOW = 20
FRESH_S = 20.0
MOST_QUEUES = 50


class SlowCommand(msgspec.Struct, kw_only=True):
    """A command that took long; what it was about is left out, because that may be anybody's."""

    at: int
    took_ms: float
    command: str


class QueueMemory(msgspec.Struct, kw_only=True):
    """The memory that a queue takes, about."""

    product: str
    name: str
    bytes: int
    jobs: int


class StoreFacts(msgspec.Struct, kw_only=True):
    """The store as it says of itself."""

    version: str
    uptime_s: int
    used_memory: int
    max_memory: int
    fragmentation: float
    clients: int
    commands_per_s: int
    keys: int
    evicted: int
    persistence: str
    slow: list[SlowCommand]
    queues: list[QueueMemory]
    left_out: int = 0
    """Queues whose memory was not measured."""


class StoreView:
    """Reads the facts; what takes longer serves for some seconds."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._memory: tuple[float, list[QueueMemory]] = (float("-inf"), [])

    async def facts(self, queues: list[ConsoleQueue]) -> StoreFacts:
        """The store as it is now."""
        with faults.translated():
            info: dict[str, Any] = await self._store.redis.info()
        databases = [cast(dict[str, Any], info[name]) for name in info if name.startswith("db")]
        keys = sum(int(each["keys"]) for each in databases)
        return StoreFacts(
            version=str(info.get("valkey_version") or info.get("redis_version", "")),
            uptime_s=int(info.get("uptime_in_seconds", 0)),
            used_memory=int(info.get("used_memory", 0)),
            max_memory=int(info.get("maxmemory", 0)),
            fragmentation=float(info.get("mem_fragmentation_ratio", 0)),
            clients=int(info.get("connected_clients", 0)),
            commands_per_s=int(info.get("instantaneous_ops_per_sec", 0)),
            keys=keys,
            evicted=int(info.get("evicted_keys", 0)),
            persistence=await self._persistence(info),
            slow=await self._slow(),
            queues=(of_queues := await self._queues(queues)),
            left_out=max(0, len(queues) - len(of_queues)),
        )

    async def _persistence(self, info: dict[str, Any]) -> str:
        if info.get("aof_enabled"):
            return "append-only file"
        try:
            _, rules = await self._store.ask("CONFIG", "GET", "save")
        except (WaystationError, ValueError):
            return "no append-only file"  # an ACL may keep the rules of snapshots to itself
        return "snapshots" if rules else "nothing on disk"

    async def _slow(self) -> list[SlowCommand]:
        found = await self._store.ask("SLOWLOG", "GET", SLOW)
        return [
            SlowCommand(
                at=int(each[1]),
                took_ms=round(int(each[2]) / 1000, 2),
                command=command(each[3]),
            )
            for each in found
        ]

    async def _queues(self, queues: list[ConsoleQueue]) -> list[QueueMemory]:
        if time.monotonic() - self._memory[0] > FRESH_S:
            measured = await asyncio.gather(*(_memory(each) for each in queues[:MOST_QUEUES]))
            found = [each for each in measured if each]
            found.sort(key=lambda each: each.bytes, reverse=True)
            self._memory = time.monotonic(), found
        return self._memory[1]


async def _memory(queue: ConsoleQueue) -> QueueMemory | None:
    with alone(queue.product, queue.name):
        size, jobs = await queue.memory()
        return QueueMemory(product=queue.product, name=queue.name, bytes=size, jobs=jobs)
