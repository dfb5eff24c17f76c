"""The scripts of the data sources, one function each: one atomic step each.

Written by `make docs` from the headers of the scripts; do not edit.
"""

from collections.abc import Sequence

from waystation.core.store.script import Client, raw, script
from waystation.pipeline.sources import replies
from waystation.pipeline.sources.keys import BatchKeys, StreamKey


@script(reply=raw)
async def add_once(
    redis: Client,
    keys: BatchKeys,
    *,
    keep_ms: int,
    width: int,
    lead: int,
    more: Sequence[str | bytes],
) -> tuple[int, int, int]:
    """Add what this batch has not added before, with the product's own script. A job is its key
    and as many arguments of that script as `width` says; before the jobs come the `lead`
    arguments that the script wants once. KEYS behind the first two are the script's. The reply
    has how many jobs are new, were there before and were refused; a closed batch takes none.
    """
    ...


@script(reply=bool)
async def close_batch(
    redis: Client, keys: BatchKeys, *, keep_ms: int, rows: int, now_ms: int
) -> bool:
    """Close a batch: write its receipt and delete its keys; from now on it takes nothing more."""
    ...


@script(reply=replies.reach)
async def reach(redis: Client, keys: StreamKey, *, after: str, count: int) -> replies.Reach:
    """Find the last id of the next entries of a stream, without sending them. The reply has the
    last of their ids ('' when there is none), how many they are, and how many entries were added
    to the stream and are gone.
    """
    ...
