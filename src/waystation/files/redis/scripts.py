"""The atomic steps of the files line, one door each."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from waystation.core.store.script import Client, raw, script
from waystation.files.redis.keys import FileKeys


class Settlement(NamedTuple):
    """What came of filing outcomes away and fetching."""

    codes: Sequence[int]
    """0 for each outcome that counts, 1 for one whose job was no longer ours."""
    fetched: Sequence[Sequence[bytes]]
    """The jobs' bytes for each lane, in order."""
    due_in_ms: int
    """How long until the next retry is due; asked for only when there was room for more, 0 when
    there is none."""
    tried: Sequence[int]
    """How many picks of each lane were tried; the others are still there."""
    newest: str
    """The newest entry of the handover."""
    cursor: str
    """The entry of the handover up to which the worker knows what is there."""


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
    """File outcomes away and fetch the next jobs, in one step."""
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
    """Take jobs back from a silent worker: 1 for each still there; None when it is alive."""
    ...


@script(reply=raw)
async def renew(
    redis: Client, keys: FileKeys, *, now: str | int, worker: str, ttl_ms: int, handlers: str
) -> list[bytes]:
    """Show that a worker is alive and what it has handlers for, and tell what it holds."""
    ...


@script(reply=raw)
async def leave(redis: Client, keys: FileKeys, *, worker: str) -> int:
    """Let a worker go; how much it leaves to be taken back."""
    ...


@script(reply=raw)
async def give_up(
    redis: Client,
    keys: FileKeys,
    *,
    now: str | int,
    worker: str,
    events_cap: int,
    entries: Sequence[str | bytes | int],
) -> list[int]:
    """Set files aside that nobody has a handler for: 1 for each that was still there."""
    ...


@script(reply=bool)
async def register(redis: Client, keys: FileKeys, *, worker: str) -> bool:
    """Register a worker by the list that it holds; whether it was not registered before."""
    ...


class Added(NamedTuple):
    """What came of putting files in line."""

    codes: Sequence[int]
    """NEW, KNOWN or WAITS for each file."""
    wait_ms: int
    """After how long it is worth asking again for those that have to wait."""


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
    """Put files into their queues; `rate` is for all producers together, 0 for none."""
    ...


@script(reply=raw)
async def recall(
    redis: Client, keys: FileKeys, *, remember_ms: int, digests: Sequence[bytes]
) -> list[int]:
    """Tell which files were put in line before: 1 for each that was."""
    ...


@script(reply=bool)
async def mark(redis: Client, keys: FileKeys, *, remember_ms: int, name: str) -> bool:
    """Leave a mark among the files that are remembered; whether it was there."""
    ...


@script(reply=raw)
async def promote(
    redis: Client, keys: FileKeys, *, now: str | int, events_cap: int, most: int
) -> int:
    """Put jobs whose pause is over back into their queues; how many there were."""
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
    """Put dead letters back into their queues; how many were still there."""
    ...


@script(reply=raw)
async def purge(
    redis: Client, keys: FileKeys, *, now: str | int, events_cap: int, most: int, queue: str
) -> int:
    """Throw the oldest dead letters away; how many."""
    ...
