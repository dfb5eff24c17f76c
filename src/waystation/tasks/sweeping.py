"""Sweeping: blobs whose jobs are gone. Internal."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import cast

from waystation.bullmq import Store
from waystation.bullmq.redis.keys import QueueKeys
from waystation.core.store import faults
from waystation.tasks.blobs import Blobs

_ID = re.compile(rb"[0-9a-f]{32}")
_KEYS_AT_ONCE = 100


async def unneeded(
    store: Store, blobs: Blobs, queues: Sequence[QueueKeys], before: datetime
) -> list[str]:
    """The names of blobs that were written before an instant, and that no job mentions."""
    # Listed before the jobs are read: a job that comes later has a blob that is younger.
    listed = await asyncio.to_thread(
        lambda: [
            each.name
            for keys in queues
            for each in blobs.of(keys.name)
            if each.written_at <= before
        ]
    )
    old = {name.rpartition("/")[2].encode(): name for name in listed}
    for keys in queues:
        if old:
            async for ids in _mentioned(store, keys):
                for id in ids:
                    old.pop(id, None)
    return sorted(old.values())


async def _mentioned(store: Store, keys: QueueKeys) -> AsyncIterator[set[bytes]]:
    """Everything in the hashes of a queue that could be the id of a blob.

    Not only jobs have one: a parent keeps its children's results when they are gone, and a
    scheduler the data of the jobs to come.
    """
    pattern = re.sub(r"([\\*?\[\]])", r"\\\1", keys.base) + "*"
    names = cast(
        AsyncIterator[bytes], store.redis.scan_iter(match=pattern, count=1000, _type="HASH")
    )
    some: list[bytes] = []
    with faults.translated():
        async for name in names:
            some.append(name)
            if len(some) == _KEYS_AT_ONCE:
                yield await _ids_in(store, some)
                some = []
    if some:
        yield await _ids_in(store, some)


async def _ids_in(store: Store, names: Sequence[bytes]) -> set[bytes]:
    with faults.translated():
        read = await asyncio.gather(*(store.hot.execute_command("HVALS", name) for name in names))
    return {id for values in read for value in values for id in _ID.findall(value)}
