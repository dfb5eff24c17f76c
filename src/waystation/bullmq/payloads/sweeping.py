"""Sweeping: blobs whose jobs are gone. Internal."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import cast

from waystation.bullmq.payloads.blobs import Blobs
from waystation.bullmq.redis.keys import QueueKeys
from waystation.core.durations import Duration, seconds
from waystation.core.errors import InvalidOption
from waystation.core.store import faults
from waystation.core.store.commands import ask_all
from waystation.core.store.connection import Store

_ID = re.compile(rb"[0-9a-f]{32}")
_KEYS_AT_ONCE = 100


async def sweep(
    store: Store,
    blobs: Blobs | None,
    queues: Sequence[QueueKeys],
    *,
    older: Duration,
    dry_run: bool,
) -> int:
    """Delete blobs older than that which no job mentions any more; returns how many."""
    if blobs is None:
        raise InvalidOption("there are no blobs to sweep: payloads need blobs")
    before = datetime.now(UTC) - timedelta(seconds=seconds(older, "older"))
    names = await unneeded(store, blobs, queues, before)
    if dry_run:
        return len(names)
    # Another sweep may be at the same ones.
    deleted = await asyncio.to_thread(lambda: [blobs.delete(each) for each in names])
    return sum(each is not False for each in deleted)


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
    # A parent that still needs a result may be in another queue than the child that returned it,
    # and a queue of the same name under another prefix keeps its blobs in the same place.
    for prefix in sorted(await _prefixes(store, queues)) if old else []:
        if old:
            async for ids in _mentioned(store, prefix):
                for id in ids:
                    old.pop(id, None)
    return sorted(old.values())


async def _prefixes(store: Store, queues: Sequence[QueueKeys]) -> set[str]:
    """The prefixes under which there are queues of these names."""
    found = {keys.prefix for keys in queues}
    for name in {keys.name for keys in queues}:
        pattern = "*:" + re.sub(r"([\\*?\[\]])", r"\\\1", name) + ":meta"
        keys = cast(AsyncIterator[bytes], store.redis.scan_iter(match=pattern, count=1000))
        with faults.translated():
            found |= {key.decode()[: -len(f":{name}:meta")] async for key in keys}
    return found


async def _mentioned(store: Store, prefix: str) -> AsyncIterator[set[bytes]]:
    """Everything in the hashes under a prefix that could be the id of a blob.

    Not only jobs have one: a parent keeps its children's results when they are gone, and a
    scheduler the data of the jobs to come.
    """
    pattern = re.sub(r"([\\*?\[\]])", r"\\\1", prefix) + ":*"
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
    read = await ask_all(store.hot, *(("HVALS", name) for name in names))
    return {id for values in read for value in values for id in _ID.findall(value)}
