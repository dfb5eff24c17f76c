"""Scans of all keys, for what nothing lists: queues, and jobs that are in no state. Internal."""

import re
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from waystation.bullmq.redis.keys import PREFIX, QueueKeys
from waystation.core.errors import InvalidOption
from waystation.core.store import faults
from waystation.core.store.commands import ask
from waystation.core.store.connection import Store

_IDS_AT_ONCE = 10_000
_SUSPECTS_AT_ONCE = 50
_KEYS_AT_ONCE = 5000
_OF_A_QUEUE = {"id", "meta", "events"}
_GLOB = "[iem][dev]*"
"""Fits these keys, and few others, so that a scan brings little but them."""


async def queue_names(store: Store, prefix: str = PREFIX) -> list[str]:
    """The queues under a prefix, but those whose names we refuse, such as `..`."""
    start = f"{prefix}:"
    names: set[str] = set()
    with faults.translated():
        async for key in _scanned(store, f"{_escaped(start)}*:{_GLOB}", _KEYS_AT_ONCE):
            name, _, kind = key.decode("utf-8", "replace").removeprefix(start).rpartition(":")
            if kind in _OF_A_QUEUE and name not in names and _can_be_opened(name, prefix):
                names.add(name)
    return sorted(names)


def _can_be_opened(name: str, prefix: str) -> bool:
    """Whether a name is one that a queue of ours may have; other clients take any."""
    try:
        QueueKeys(name, prefix=prefix)
    except InvalidOption:
        return False
    return True


async def suspects(store: Store, keys: QueueKeys, count: int) -> AsyncGenerator[list[str]]:
    """Ids of hashes that may be jobs in no state; the script then checks them."""
    base = keys.base
    # Looking up an id takes longer the longer the list is, so the lists are read once.
    listed = await _listed(store, keys)
    found: list[str] = []
    with faults.translated():
        async for key in _scanned(store, f"{_escaped(base)}*", count, kind="HASH"):
            name = key.removeprefix(base.encode())
            if name not in listed:
                found.append(name.decode("utf-8", "replace"))
            if len(found) == _SUSPECTS_AT_ONCE:
                yield found
                found = []
    if found:
        yield found


async def _listed(store: Store, keys: QueueKeys) -> set[bytes]:
    ids: set[bytes] = set()
    for key in (keys.wait, keys.active, keys.paused):
        for first in range(0, await ask(store.hot, "LLEN", key), _IDS_AT_ONCE):
            ids.update(await ask(store.hot, "LRANGE", key, first, first + _IDS_AT_ONCE - 1))
    return ids


def _scanned(
    store: Store, pattern: str, count: int, *, kind: str | None = None
) -> AsyncIterator[bytes]:
    redis: Any = store.redis
    return redis.scan_iter(match=pattern, count=count, _type=kind)


def _escaped(text: str) -> str:
    return re.sub(r"([\\*?\[\]])", r"\\\1", text)
