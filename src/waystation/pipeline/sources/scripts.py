"""The atomic steps that the data sources take."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from waystation.core.store.keyspace import Hash, Keyspace, Set
from waystation.core.store.script import Client, script


class StreamKey(NamedTuple):
    """One stream of any line, by its whole key."""

    stream: str


class BatchKeys(Keyspace, root="<prefix>:<name>:once:<batch>"):
    """What is remembered of one batch that was put into a queue."""

    receipt = Hash(
        "", "rows, jobs, and when it was closed", ttl="as long as it was asked to be kept"
    )
    done = Set("keys", "keys that have been added", ttl="until the batch is closed, or as long")


class Reach(NamedTuple):
    """How far the next entries of a stream reach."""

    last: str
    many: int
    gone: int
    """Entries that were added and are no longer there; -1 where the server does not count."""


def _reach(raw: Any) -> Reach:
    last, many, gone = raw
    return Reach(last.decode(), many, gone)


@script(reply=_reach)
async def reach(redis: Client, keys: StreamKey, *, after: str, count: int) -> Reach:
    """Look how far the next entries of a stream reach, without sending them."""
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
    """Add what this batch has not added before; the line's own script does the adding."""
    ...


@script(reply=bool)
async def close_batch(
    redis: Client, keys: BatchKeys, *, keep_ms: int, rows: int, now_ms: int
) -> bool:
    """Write down what came of a batch and let go of its keys."""
    ...
