"""The scripts of a queue: every atomic step of producers, workers and upkeep."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from waystation.core.store.script import Client, raw, script, texts
from waystation.routing.redis.keys import RoutingKeys


class Settlement(NamedTuple):
    """What came of settling and claiming."""

    codes: Sequence[int]
    """0 for each outcome that counts, else why it does not."""
    claims: Sequence[bytes]
    """An id and the job's JSON for each job claimed, in turn."""
    limited_ms: int
    """How long a limit per minute keeps fitting jobs back; 0 when none does."""
    due_in_ms: int | None
    """How long until the next delayed job is due; None when there is none."""
    woken: str
    """The last wake-up that this call knows of."""
    unread: bool
    """Whether there are signatures that the worker has not been held against yet."""


class Look(NamedTuple):
    """Who has something to do."""

    found: list[tuple[int, bytes]]
    """The place of each worker that has, and a signature that it could serve."""
    limited_ms: int
    due_in_ms: int | None
    woken: str
    """These three as in a settlement."""


def _settlement(answer: Any) -> Settlement:
    codes, claims, limited_ms, due_in, woken, unread = answer
    return Settlement(
        codes, claims, int(limited_ms), _due_in_ms(due_in), woken.decode(), bool(unread)
    )


def _look(answer: Any) -> Look:
    found, limited_ms, due_in, woken = answer
    pairs = list(zip(found[::2], found[1::2], strict=True))
    return Look(pairs, int(limited_ms), _due_in_ms(due_in), woken.decode())


def _due_in_ms(text: bytes) -> int | None:
    # A job that others have put off for ever is never due.
    return int(float(text)) if text and math.isfinite(float(text)) else None


class Added(NamedTuple):
    """What came of a job that was to be added."""

    id: str
    """The id of the job that there is now."""
    data: bytes = b""
    """Its data, if it was there before and has not ended."""


def _added(answer: Sequence[bytes | Sequence[bytes]]) -> list[Added]:
    return [
        Added(each.decode()) if isinstance(each, bytes) else Added(each[0].decode(), each[1])
        for each in answer
    ]


@script(reply=_added)
async def dispatch(
    redis: Client,
    keys: RoutingKeys,
    *,
    namespace: str,
    now: str | int,
    jobs: Sequence[str | bytes | int],
) -> list[Added]:
    """Add jobs, all of them or none; the job that there is now for each."""
    ...


@script(reply=_settlement)
async def settle(
    redis: Client,
    keys: RoutingKeys,
    *,
    namespace: str,
    now: str | int,
    token: str,
    lease_ms: int,
    want: int,
    profile: bytes,
    worker: str,
    keep_s: int,
    outcomes: Sequence[str | bytes | int],
) -> Settlement:
    """File outcomes away and claim the next jobs, in one step."""
    ...


@script(reply=raw)
async def find_held(
    redis: Client,
    keys: RoutingKeys,
    *,
    namespace: str,
    batch: int,
    cursor: int,
    tokens: Sequence[str],
) -> tuple[list[bytes], bytes]:
    """Find the jobs that were claimed under these tokens, for a worker whose answer was lost: id,
    token and JSON of each, in turn, and where to go on.
    """
    ...


@script(reply=raw)
async def extend(
    redis: Client,
    keys: RoutingKeys,
    *,
    namespace: str,
    now: str | int,
    lease_ms: int,
    worker: str,
    held: Sequence[str],
) -> list[int]:
    """Renew leases; the reply has the places, from 1, of those that are lost."""
    ...


@script(reply=bool)
async def report_progress(
    redis: Client,
    keys: RoutingKeys,
    *,
    namespace: str,
    now: str | int,
    id: str,
    token: str,
    progress: bytes,
    percent: float,
    keep_s: int,
) -> bool:
    """Store how far a job is, if the caller holds it."""
    ...


@script(reply=int)
async def beat(
    redis: Client,
    keys: RoutingKeys,
    *,
    namespace: str,
    now: str | int,
    ttl_ms: int,
    workers: Sequence[str | bytes],
) -> int:
    """Store heartbeats of workers; how many were not known before."""
    ...


@script(reply=_look)
async def look(
    redis: Client, keys: RoutingKeys, *, namespace: str, now: str | int, profiles: Sequence[bytes]
) -> Look:
    """Which of these workers there is something to do for, and when to look again."""
    ...


@script(reply=raw)
async def fits(
    redis: Client, keys: RoutingKeys, *, signature: bytes, profiles: Sequence[bytes]
) -> list[int] | None:
    """Which of these workers have what jobs of a signature ask for; None when no job waits."""
    ...


@script(reply=bool)
async def leave(
    redis: Client, keys: RoutingKeys, *, namespace: str, now: str | int, worker: str
) -> bool:
    """Remove a worker that has stopped from the registry."""
    ...


class Page(NamedTuple):
    """What one bounded step did, and where the next one goes on."""

    names: list[str]
    cursor: int
    given_up: Sequence[str] = ()
    """Those of them that are dead now."""


def _page(answer: Any) -> Page:
    names, cursor, *given_up = answer
    return Page(texts(names), int(cursor), texts(given_up[0]) if given_up else ())


@script(reply=raw)
async def cancel(
    redis: Client,
    keys: RoutingKeys,
    *,
    namespace: str,
    now: str | int,
    keep_s: int,
    result: bytes,
    by: str,
    ids: Sequence[str],
) -> list[int]:
    """Stop jobs that have not ended; for each 1, or 0 when there is nothing to stop."""
    ...


@script(reply=int)
async def requeue(
    redis: Client,
    keys: RoutingKeys,
    *,
    namespace: str,
    now: str | int,
    jobs: Sequence[str | bytes],
) -> int:
    """Let dead jobs wait again with fresh attempts; how many did."""
    ...


@script(reply=int)
async def purge(
    redis: Client, keys: RoutingKeys, *, namespace: str, now: str | int, ids: Sequence[str]
) -> int:
    """Remove dead jobs for good; how many there were."""
    ...


@script(reply=bool)
async def pause(
    redis: Client, keys: RoutingKeys, *, namespace: str, now: str | int, queue: str, by: str
) -> bool:
    """Pause a type: workers get no jobs of it until it is resumed."""
    ...


@script(reply=bool)
async def resume(
    redis: Client, keys: RoutingKeys, *, namespace: str, now: str | int, queue: str
) -> bool:
    """Resume a type."""
    ...


@script(reply=bool)
async def set_limit(
    redis: Client, keys: RoutingKeys, *, namespace: str, queue: str, config: str | bytes
) -> bool:
    """Set or lift the limits of a type."""
    ...


@script(reply=_page)
async def recover(
    redis: Client,
    keys: RoutingKeys,
    *,
    namespace: str,
    now: str | int,
    term: int,
    max_stalls: int,
    batch: int,
    cursor: int,
    workers: Sequence[str],
) -> Page:
    """Take jobs back whose lease is over or whose worker is dead."""
    ...


@script(reply=_page)
async def recover_foreign(
    redis: Client,
    keys: RoutingKeys,
    *,
    namespace: str,
    now: str | int,
    term: int,
    batch: int,
    cursor: int,
) -> Page:
    """Take back jobs that others have claimed with plain commands and whose lock is over."""
    ...


@script(reply=raw)
async def release(
    redis: Client,
    keys: RoutingKeys,
    *,
    namespace: str,
    now: str | int,
    term: int,
    batch: int,
    cursor: str | int,
    routes_cursor: str | int,
) -> tuple[int, bytes, bytes]:
    """Go on with jobs that waited for one that has ended; how many, and where the looks for jobs
    that others have ended go on.
    """
    ...


@script(reply=texts)
async def fire_cron(
    redis: Client,
    keys: RoutingKeys,
    *,
    namespace: str,
    now: str | int,
    term: int,
    schedules: Sequence[str | bytes | int],
) -> list[str]:
    """Fire schedules whose time has come, each slot once, and move them to their next time."""
    ...


@script(reply=texts)
async def reconcile(
    redis: Client, keys: RoutingKeys, *, namespace: str, term: int, counted: Sequence[str]
) -> list[str]:
    """Set the count of running jobs, of these types and of all that run under a limit, to what the
    claims say; the types that were wrong.
    """
    ...


@script(reply=_page)
async def tidy(
    redis: Client,
    keys: RoutingKeys,
    *,
    namespace: str,
    now: str | int,
    term: int,
    silent_ms: int,
    batch: int,
    cursor: int,
    workers: Sequence[str],
) -> Page:
    """Forget workers that have been silent for long and signatures that nobody asks for."""
    ...


@script(reply=raw)
async def reindex(
    redis: Client,
    keys: RoutingKeys,
    *,
    namespace: str,
    now: str | int,
    term: int,
    first: int,
    count: int,
) -> list[int]:
    """Hold a stretch of the waiting list against the index and mend what differs; how much did, and
    where the next stretch begins, or -1.
    """
    ...


@script(reply=raw)
async def coverage(
    redis: Client,
    keys: RoutingKeys,
    *,
    namespace: str,
    now: str | int,
    profiles: bytes,
    first: int,
    count: int,
) -> list[list[Any]]:
    """Waiting jobs by signature, compared with what these workers offer."""
    ...


@script(reply=raw)
async def why(
    redis: Client, keys: RoutingKeys, *, namespace: str, now: str | int, profiles: bytes, id: str
) -> list[Any]:
    """Where one job stands, and what it needs to go on."""
    ...
