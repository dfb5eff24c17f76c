"""The atomic steps of whoever looks after the line, one door each."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from waystation.core.store.script import Client, raw, script, texts
from waystation.routing.keys import RoutingKeys


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
    redis: Client, keys: RoutingKeys, *, namespace: str, now: str | int, queue: str
) -> bool:
    """Hand out no more jobs of a type."""
    ...


@script(reply=bool)
async def resume(
    redis: Client, keys: RoutingKeys, *, namespace: str, now: str | int, queue: str
) -> bool:
    """Hand out jobs of a type again."""
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
    """Take back jobs that others claimed with plain commands and whose lock is over."""
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
    """Set each type's count of running jobs to what the claims say; the types that were wrong."""
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
) -> Page:
    """Forget workers silent for long and signatures that nobody asks for any more."""
    ...


@script(reply=int)
async def reindex(
    redis: Client,
    keys: RoutingKeys,
    *,
    namespace: str,
    now: str | int,
    term: int,
    first: int,
    count: int,
) -> int:
    """Hold a stretch of the waiting list against the index and mend what differs."""
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
    """What waits, by signature, and what keeps it from running on the workers given."""
    ...


@script(reply=raw)
async def why(
    redis: Client, keys: RoutingKeys, *, namespace: str, now: str | int, profiles: bytes, id: str
) -> list[Any]:
    """Where one job stands, and what it needs to go on."""
    ...
