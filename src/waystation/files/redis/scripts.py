"""The scripts of the files queue, one function each."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from waystation.core.store.script import Client, raw, script
from waystation.files.redis.keys import FileKeys


class Settlement(NamedTuple):
    """The reply of `settle`."""

    codes: Sequence[int]
    """0 for each outcome that was stored, 1 for one whose job the worker no longer held."""
    fetched: Sequence[Sequence[bytes]]
    """The jobs' bytes for each lane, in order."""
    due_in_ms: int
    """Time until the next retry is due; 0 without one, or when the worker has no room for it."""
    tried: Sequence[int]
    """How many of each lane's unmatched entries were tried."""
    newest: str
    """The newest entry of the unmatched files."""
    cursor: str
    """The entry of the unmatched files up to which the worker has read."""


def _settlement(answer: Any) -> Settlement:
    codes, fetched, due_in_ms, tried, newest, cursor = answer
    return Settlement(codes, fetched, int(due_in_ms), tried, newest.decode(), cursor.decode())


@script(reply=_settlement)
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
) -> Settlement:
    """Store outcomes and fetch the next jobs, in one step."""
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
    """Take jobs back from a dead worker: 1 for each still there; None when it is alive."""
    ...


@script(reply=raw)
async def renew(
    redis: Client, keys: FileKeys, *, now: str | int, worker: str, ttl_ms: int, handlers: str
) -> list[bytes]:
    """Renew a worker's heartbeat with the patterns of its handlers; the jobs that it holds."""
    ...


@script(reply=raw)
async def leave(redis: Client, keys: FileKeys, *, worker: str) -> int:
    """Unregister a worker; how many jobs it leaves to be taken back."""
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
    """Make dead letters of files without a handler: 1 for each that was still there."""
    ...


@script(reply=bool)
async def register(redis: Client, keys: FileKeys, *, worker: str) -> bool:
    """Register a worker whose list holds jobs; True when it was not registered before."""
    ...


class Added(NamedTuple):
    """The reply of `add`."""

    codes: Sequence[int]
    """NEW, KNOWN or WAITS for each file."""
    wait_ms: int
    """How long to wait before adding those again that exceeded the rate."""


KNOWN, NEW, WAITS = 0, 1, 2


def _added(answer: Any) -> Added:
    return Added(*answer)


@script(reply=_added)
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
) -> Added:
    """Add files to their queues; `rate` a second holds for all producers together, 0 for none."""
    ...


@script(reply=raw)
async def recall(
    redis: Client, keys: FileKeys, *, remember_ms: int, digests: Sequence[bytes]
) -> list[int]:
    """Look up which files were added before: 1 for each that was."""
    ...


@script(reply=bool)
async def mark(redis: Client, keys: FileKeys, *, remember_ms: int, name: str) -> bool:
    """Add a mark to the remembered files; True when it was there."""
    ...


@script(reply=bool)
async def pause(redis: Client, keys: FileKeys, *, queue: str) -> bool:
    """Let workers take nothing more from a queue; False when they took nothing before."""
    ...


@script(reply=bool)
async def resume(redis: Client, keys: FileKeys, *, queue: str) -> bool:
    """Let workers take from a queue again; False when they did."""
    ...


@script(reply=raw)
async def promote(
    redis: Client, keys: FileKeys, *, now: str | int, events_cap: int, most: int
) -> int:
    """Move retries that are due into their queues; how many there were."""
    ...


@script(reply=raw)
async def requeue(
    redis: Client,
    keys: FileKeys,
    *,
    now: str | int,
    events_cap: int,
    letters: Sequence[str | bytes | int],
) -> int:
    """Move dead letters back into their queues; how many were still there."""
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
    """Remove jobs from where they are: 1 for each that was still there."""
    ...


@script(reply=raw)
async def purge(
    redis: Client, keys: FileKeys, *, now: str | int, events_cap: int, most: int, queue: str
) -> int:
    """Delete the oldest dead letters; how many."""
    ...
