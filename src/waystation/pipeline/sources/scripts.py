"""Redis scripts of the data sources."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from waystation.core.store.keyspace import Hash, Keyspace, Set
from waystation.core.store.script import Client, script


class StreamKey(NamedTuple):
    """One stream of any product, by its whole key."""

    stream: str


class BatchKeys(Keyspace, root="<prefix>:<name>:once:<batch>"):
    """What is remembered of one batch that was added to a queue."""

    receipt = Hash("", "rows, jobs, and when it was closed", ttl="the option keep")
    done = Set(
        "keys",
        "keys that have been added",
        ttl="until the batch is closed",
    )


class Reach(NamedTuple):
    """The next entries of a stream."""

    last: str
    many: int
    gone: int
    """Entries that were added and are gone; -1 where the server does not count them."""


def _reach(raw: Any) -> Reach:
    last, many, gone = raw
    return Reach(last.decode(), many, gone)


@script(reply=_reach)
async def reach(redis: Client, keys: StreamKey, *, after: str, count: int) -> Reach:
    """Find the last id of the next entries of a stream, without sending them."""
    ...


@script(reply=tuple)
async def add_once(
    redis: Client,
    keys: BatchKeys,
    *,
    keep_ms: int,
    width: int,
    lead: int,
    more: Sequence[str | bytes],
) -> tuple[int, int, int]:
    """Add what this batch has not added before, with the product's own script."""
    ...


@script(reply=bool)
async def close_batch(
    redis: Client, keys: BatchKeys, *, keep_ms: int, rows: int, now_ms: int
) -> bool:
    """Close a batch: write its receipt and delete its keys."""
    ...
