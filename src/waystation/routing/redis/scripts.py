"""The scripts of routing, one function each: one atomic step each.

Written by `make docs` from the headers of the scripts; do not edit.
"""

from collections.abc import Sequence
from typing import Any

from waystation.core.store.script import Client, raw, script
from waystation.routing.redis import replies
from waystation.routing.redis.keys import RoutingKeys


@script(reply=replies.added)
async def dispatch(
    redis: Client, keys: RoutingKeys, *, now: str | int, jobs: Sequence[str | bytes | int]
) -> list[replies.Added]:
    """Add jobs, all of them or none. Each job is its kind (waiting, delayed or cron), id, data,
    route, due (an instant, or +delay), idempotency key or nothing, seconds that key is kept, and
    a JSON list of the ids it waits for. The reply has the id of each, or for one that was there
    before its id and its data ('' when it has ended).
    """
    ...


@script(reply=bool)
async def pause(redis: Client, keys: RoutingKeys, *, now: str | int, queue: str, by: str) -> bool:
    """Pause a type: workers get no jobs of it until it is resumed; 0 when it was paused."""
    ...


@script(reply=bool)
async def resume(redis: Client, keys: RoutingKeys, *, now: str | int, queue: str) -> bool:
    """Resume a type; 0 when they were not paused."""
    ...


@script(reply=bool)
async def set_limit(redis: Client, keys: RoutingKeys, *, queue: str, config: str | bytes) -> bool:
    """Set or lift the limits of a type."""
    ...


@script(reply=raw)
async def claim_job(
    redis: Client,
    keys: RoutingKeys,
    *,
    worker: str,
    stack: str,
    capabilities: str,
    region: str,
    now: str | int,
    lock_ttl: int,
    data_prefix: str,
    lock_prefix: str,
    limit_prefix: str,
) -> Any:
    """Claim the next job that fits a worker; its JSON, or nil. The arguments are those of
    BridgeMQ.
    """
    ...


@script(reply=raw)
async def process_cron(
    redis: Client, keys: RoutingKeys, *, now: str | int, batch: int = 100
) -> Any:
    """Fire the schedules that are due, each slot once however often this is called; a JSON list
    of those that need a next time. The arguments are those of BridgeMQ.
    """
    ...


@script(reply=int)
async def process_delayed(
    redis: Client, keys: RoutingKeys, *, now: str | int, batch: int = 100
) -> int:
    """Let delayed jobs wait whose time has come; how many did. The arguments are those of
    BridgeMQ. Whoever knows them names further keys, so that it waits while a cluster moves the
    slot.
    """
    ...


@script(reply=bool)
async def release_lock(redis: Client, keys: RoutingKeys, *, worker: str, id: str) -> bool:
    """Release a job's lock if the worker owns it; 1 when it did. The arguments are those of
    BridgeMQ.
    """
    ...


@script(reply=raw)
async def cancel(
    redis: Client,
    keys: RoutingKeys,
    *,
    now: str | int,
    keep_s: int,
    result: bytes,
    by: str,
    ids: Sequence[str],
) -> list[int]:
    """Stop jobs that have not ended; for each 1, or 0 when there is nothing to stop."""
    ...


@script(reply=raw)
async def coverage(
    redis: Client, keys: RoutingKeys, *, now: str | int, profiles: bytes, first: int, count: int
) -> list[list[Any]]:
    """Waiting jobs by signature, compared with what these workers offer: for each signature its
    first id, how many wait, and what keeps them from running.
    """
    ...


@script(reply=int)
async def purge(redis: Client, keys: RoutingKeys, *, now: str | int, ids: Sequence[str]) -> int:
    """Remove dead jobs for good; how many there were."""
    ...


@script(reply=int)
async def requeue(
    redis: Client, keys: RoutingKeys, *, now: str | int, jobs: Sequence[str | bytes]
) -> int:
    """Let dead jobs wait again with fresh attempts; each is its id and data. How many did. One
    that never ran, because another will not complete, waits for those it depends on as before,
    and stays dead while one of them is unknown.
    """
    ...


@script(reply=raw)
async def why(
    redis: Client, keys: RoutingKeys, *, now: str | int, profiles: bytes, id: str
) -> list[Any]:
    """Where one job stands, and what it needs to go on. The reply has its status, data and
    result, why it is dead, whether it runs, its holder and since when, its lock and how long
    that lasts, when it is due, when its schedule fires, its place in line, its lane and
    signature, what keeps it there, and what it waits for (id and status of each, in turn).
    """
    ...


@script(reply=int)
async def beat(
    redis: Client, keys: RoutingKeys, *, now: str | int, ttl_ms: int, workers: Sequence[str | bytes]
) -> int:
    """Store heartbeats of workers; each is its id and description. How many of them were not
    known before.
    """
    ...


@script(reply=raw)
async def extend(
    redis: Client,
    keys: RoutingKeys,
    *,
    now: str | int,
    lease_ms: int,
    worker: str,
    held: Sequence[str],
) -> list[int]:
    """Renew leases; the reply has the places, from 1, of those that are lost."""
    ...


@script(reply=raw)
async def find_held(
    redis: Client, keys: RoutingKeys, *, batch: int, cursor: int, tokens: Sequence[str]
) -> tuple[list[bytes], bytes]:
    """Find the jobs that were claimed under these tokens, for a worker whose answer was lost.
    The reply has an id, a token and the JSON of each, and where to go on.
    """
    ...


@script(reply=raw)
async def fits(
    redis: Client, keys: RoutingKeys, *, signature: bytes, profiles: Sequence[bytes]
) -> list[int] | None:
    """Which of these workers have what jobs of a signature ask for; their places, from 0. Nil
    when no such job waits any more.
    """
    ...


@script(reply=bool)
async def leave(redis: Client, keys: RoutingKeys, *, now: str | int, worker: str) -> bool:
    """Remove a worker that has stopped from the registry; 0 when it was not there."""
    ...


@script(reply=replies.look)
async def look(
    redis: Client, keys: RoutingKeys, *, now: str | int, profiles: Sequence[bytes]
) -> replies.Look:
    """Which of these workers there is something to do for, and when to look again. The reply has
    the place and a signature for each such worker, in turn; how many milliseconds a limit per
    minute keeps fitting jobs back, and how many until the next delayed job is due; and the last
    wake-up.
    """
    ...


@script(reply=bool)
async def report_progress(
    redis: Client,
    keys: RoutingKeys,
    *,
    now: str | int,
    id: str,
    token: str,
    progress: bytes,
    percent: float,
    keep_s: int,
) -> bool:
    """Store how far a job is, if the caller holds it."""
    ...


@script(reply=replies.settlement)
async def settle(
    redis: Client,
    keys: RoutingKeys,
    *,
    now: str | int,
    token: str,
    lease_ms: int,
    want: int,
    profile: bytes,
    worker: str,
    keep_s: int,
    outcomes: Sequence[str | bytes | int],
) -> replies.Settlement:
    """File outcomes away and claim the next jobs, in one step. Each outcome is its kind, id and
    token, then: completed result attempt progressed; retry data result delay route reason
    attempt; dead data result meta attempt; returned nothing.
    """
    ...


@script(reply=replies.texts)
async def fire_cron(
    redis: Client,
    keys: RoutingKeys,
    *,
    now: str | int,
    term: int,
    schedules: Sequence[str | bytes | int],
) -> list[str]:
    """Fire schedules whose time has come, each slot once, and move them to their next time. Each
    schedule is its id, the time it was read with, its next time or nothing, its overlap policy
    (nothing when it cannot be read), how many slots it fires, then for each the slot and the
    instance's data, and how many it leaves out, then for each the slot, or the first and last
    instant of a range.
    """
    ...


@script(reply=replies.texts)
async def reconcile(
    redis: Client, keys: RoutingKeys, *, term: int, counted: Sequence[str]
) -> list[str]:
    """Set the count of running jobs, of these types and of all that run under a limit, to what
    the claims say; the types that were wrong.
    """
    ...


@script(reply=replies.page)
async def recover(
    redis: Client,
    keys: RoutingKeys,
    *,
    now: str | int,
    term: int,
    max_stalls: int,
    batch: int,
    cursor: int,
    workers: Sequence[str],
) -> replies.Page:
    """Take jobs back whose lease is over or whose worker is dead; their ids, where to go on, and
    the ids of those that were given up.
    """
    ...


@script(reply=replies.page)
async def recover_foreign(
    redis: Client, keys: RoutingKeys, *, now: str | int, term: int, batch: int, cursor: int
) -> replies.Page:
    """Take back jobs that others have claimed with plain commands and whose lock is over."""
    ...


@script(reply=raw)
async def reindex(
    redis: Client, keys: RoutingKeys, *, now: str | int, term: int, first: int, count: int
) -> list[int]:
    """Hold a stretch of the waiting list against the index and mend what differs; how much did,
    and where the next stretch begins, or -1 when there is none. The list and the index have the
    same order, so what the index has and the list has not, near the same place, was taken off
    the list by another client.
    """
    ...


@script(reply=raw)
async def release(
    redis: Client,
    keys: RoutingKeys,
    *,
    now: str | int,
    term: int,
    batch: int,
    cursor: str | int,
    routes_cursor: str | int,
) -> tuple[int, bytes, bytes]:
    """Go on with jobs that waited for one that has ended; how many went on, and where both looks
    go on.
    """
    ...


@script(reply=replies.page)
async def tidy(
    redis: Client,
    keys: RoutingKeys,
    *,
    now: str | int,
    term: int,
    silent_ms: int,
    batch: int,
    cursor: int,
    workers: Sequence[str],
) -> replies.Page:
    """Forget workers that have been silent for long and signatures that nobody asks for."""
    ...
