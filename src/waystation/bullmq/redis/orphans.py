"""Orphans: jobs that are in no state of their queue. Internal."""

import re
from collections.abc import AsyncGenerator, AsyncIterator
from typing import cast

from waystation.bullmq.redis.commands import ask
from waystation.bullmq.redis.keys import QueueKeys
from waystation.core.store import faults
from waystation.core.store.connection import Store

_IDS_AT_ONCE = 10_000
_SUSPECTS_AT_ONCE = 50


async def suspects(store: Store, keys: QueueKeys, count: int) -> AsyncGenerator[list[str]]:
    """Ids of hashes that may be jobs in no state; the script then checks them."""
    base = keys.base
    # Looking up an id takes longer the longer the list is, so the lists are read once.
    listed = await _listed(store, keys)
    pattern = re.sub(r"([\\*?\[\]])", r"\\\1", base) + "*"
    names = cast(
        AsyncIterator[bytes], store.redis.scan_iter(match=pattern, count=count, _type="HASH")
    )
    found: list[str] = []
    with faults.translated():
        async for key in names:
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
