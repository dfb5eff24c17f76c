"""The scripts of files, one function each: one atomic step each.

Written by `make docs` from the headers of the scripts; do not edit.
"""

from collections.abc import Sequence

from waystation.core.store.script import Client, raw, script
from waystation.files.redis import replies
from waystation.files.redis.keys import FileKeys


@script(reply=replies.added)
async def add(
    redis: Client,
    keys: FileKeys,
    *,
    now: str | int,
    events_cap: int,
    remember_ms: int,
    rate: int,
    burst: int,
    jobs: Sequence[str | bytes | int],
) -> replies.Added:
    """Add files to their queues. Each is its digest (empty counts as new), lane, id, JSON, path
    and size; the reply has 1 for each that was added, 0 for one that is known, 2 for one that
    has to wait, and the milliseconds to wait. `rate` a second holds for all producers together,
    0 for none.
    """
    ...


@script(reply=raw)
async def dead_letter_unmatched(
    redis: Client,
    keys: FileKeys,
    *,
    now: str | int,
    worker: str,
    events_cap: int,
    entries: Sequence[str | bytes | int],
) -> list[int]:
    """Make dead letters of files without a handler. Each is its entry in the stream, then its
    id, lane and attempt, payload, reason and error; the reply has 1 for each that was still
    there.
    """
    ...


@script(reply=int)
async def leave(redis: Client, keys: FileKeys, *, worker: str) -> int:
    """Unregister a worker; how many jobs it still holds, which may be taken back at once."""
    ...


@script(reply=bool)
async def mark(redis: Client, keys: FileKeys, *, remember_ms: int, name: str) -> bool:
    """Add a mark to the remembered files; 1 when it was there: the memory was neither rotated
    nor deleted since.
    """
    ...


@script(reply=bool)
async def pause(redis: Client, keys: FileKeys, *, queue: str) -> bool:
    """Let workers take nothing more from a queue; 0 when they took nothing before."""
    ...


@script(reply=int)
async def promote(
    redis: Client, keys: FileKeys, *, now: str | int, events_cap: int, most: int
) -> int:
    """Move retries that are due into their queues; how many there were."""
    ...


@script(reply=int)
async def purge(
    redis: Client, keys: FileKeys, *, now: str | int, events_cap: int, most: int, queue: str
) -> int:
    """Delete the oldest dead letters; how many."""
    ...


@script(reply=raw)
async def reap(
    redis: Client,
    keys: FileKeys,
    *,
    now: str | int,
    worker: str,
    events_cap: int,
    taken: Sequence[str | bytes | int],
) -> list[int] | None:
    """Take jobs back from a dead worker. Each is its kind and the bytes in the worker's list,
    its id, lane and attempt, then: retry payload delay reason error; dead payload reason error.
    The reply has 1 for each that was still there; there is none when the worker is alive.
    """
    ...


@script(reply=raw)
async def recall(
    redis: Client, keys: FileKeys, *, remember_ms: int, digests: Sequence[bytes]
) -> list[int]:
    """Look up which files were added before: 1 for each that was."""
    ...


@script(reply=bool)
async def register(redis: Client, keys: FileKeys, *, worker: str) -> bool:
    """Register a worker whose list holds jobs; 1 when it was not registered before."""
    ...


@script(reply=raw)
async def remove(
    redis: Client,
    keys: FileKeys,
    *,
    now: str | int,
    events_cap: int,
    jobs: Sequence[str | bytes | int],
) -> list[int]:
    """Remove jobs from where they are. Each is its state, bytes, id, lane and attempt, and the
    id of its entry among the unmatched files. The reply has 1 for each that was still there.
    """
    ...


@script(reply=raw)
async def renew(
    redis: Client, keys: FileKeys, *, now: str | int, worker: str, ttl_ms: int, handlers: str
) -> list[bytes]:
    """Renew a worker's heartbeat with the patterns of its handlers; returns the jobs it holds."""
    ...


@script(reply=int)
async def requeue(
    redis: Client,
    keys: FileKeys,
    *,
    now: str | int,
    events_cap: int,
    letters: Sequence[str | bytes | int],
) -> int:
    """Move dead letters back into their queues. Each is the bytes of the letter, its id, lane
    and new JSON; the reply is how many were still there.
    """
    ...


@script(reply=bool)
async def resume(redis: Client, keys: FileKeys, *, queue: str) -> bool:
    """Let workers take from a queue again; 0 when they did."""
    ...


@script(reply=replies.settlement)
async def settle(
    redis: Client,
    keys: FileKeys,
    *,
    now: str | int,
    worker: str,
    ttl_ms: int,
    completed_cap: int,
    events_cap: int,
    want: int,
    plan: str,
    picks: str,
    cursor: str,
    outcomes: Sequence[str | bytes | int],
) -> replies.Settlement:
    """Store outcomes and fetch the next jobs, in one step. Each outcome is its kind and the
    job's bytes as fetched, its id, lane and attempt, then: completed took; returned and skipped
    nothing; retry payload delay reason error; dead payload reason error. The plan has a pair for
    each lane: its share of what is wanted, and the most it may give. Picks are unmatched entries
    that the worker has a handler for, each a lane and an id; it has read the entries up to the
    cursor.
    """
    ...
