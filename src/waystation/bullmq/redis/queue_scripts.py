"""The atomic steps of looking after a queue, one function each."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.redis.scripts import id_or_code
from waystation.core.line.server_time import SERVER_TIME
from waystation.core.store.script import Client, raw, script, texts

MOST_COUNTED = 20_000
"""Entries that the server counts for a listener who begins in the middle of a stream."""


class Sweep(NamedTuple):
    """What came of one pass over a state."""

    removed: list[str]
    spared: int

    @property
    def seen(self) -> int:
        """How many jobs were looked at."""
        return len(self.removed) + self.spared


def _sweep(answer: Any) -> Sweep:
    removed, spared = answer
    return Sweep(texts(removed), spared)


def _text(answer: Any) -> str:
    return answer.decode()


def _hashes(answer: Any) -> list[dict[bytes, bytes]]:
    return [dict(zip(flat[::2], flat[1::2], strict=True)) for flat in answer]


@script(reply=raw)
async def pause(redis: Client, keys: QueueKeys, *, by: str, most: int) -> int:
    """Hand out nothing until the queue is resumed; the reply is how many are left to set aside."""
    ...


@script(reply=raw)
async def resume(redis: Client, keys: QueueKeys, *, most: int) -> int:
    """Resume the queue, after bringing its two lists together, so many ids in a call; the reply is
    how many are left to move before it does.
    """
    ...


@script(reply=_sweep)
async def sweep(
    redis: Client,
    keys: QueueKeys,
    *,
    base: str,
    now: str | int = SERVER_TIME,
    state: str,
    grace: str | int,
    most: int,
    skip: int,
    emit: str,
) -> Sweep:
    """Remove jobs of one state, the oldest first."""
    ...


@script(reply=raw)
async def obliterate(
    redis: Client,
    keys: QueueKeys,
    *,
    base: str,
    now: str | int = SERVER_TIME,
    most: int,
    force: str,
) -> int:
    """Delete a whole queue, so many jobs in one call; 1 when there is more, 0 when nothing is left,
    -2 when jobs are active.
    """
    ...


@script(reply=raw)
async def retry_jobs(
    redis: Client,
    keys: QueueKeys,
    *,
    base: str,
    state: str,
    until_ms: str | int,
    most: int,
) -> int:
    """Make the jobs of one state wait again that got there no later than `until_ms`, the oldest
    first and at most `most`; the reply is how many there were.
    """
    ...


@script(reply=texts)
async def remove_orphans(
    redis: Client, keys: QueueKeys, *, base: str, most: int, dry_run: str, ids: Sequence[str]
) -> list[str]:
    """Find jobs that no state knows of, at most so many, and delete what is kept about them."""
    ...


@script(reply=_text)
async def state_of(redis: Client, keys: QueueKeys, *, id: str) -> str:
    """The state a job is in."""
    ...


@script(reply=raw)
async def count_jobs(redis: Client, keys: QueueKeys, *, states: Sequence[str]) -> list[int]:
    """How many jobs are in each of the states, in the order asked for."""
    ...


@script(reply=raw)
async def count_priorities(
    redis: Client, keys: QueueKeys, *, priorities: Sequence[int]
) -> list[int]:
    """How many jobs wait with each of the priorities, in the order asked for."""
    ...


@script(reply=texts)
async def list_ids(
    redis: Client, keys: QueueKeys, *, state: str, first: int, last: int, asc: int
) -> list[str]:
    """The ids of one state from place `first` to `last`, the newest or (`asc`) the oldest first."""
    ...


@script(reply=_hashes)
async def read_jobs(
    redis: Client, keys: QueueKeys, *, base: str, ids: Sequence[str]
) -> list[dict[bytes, bytes]]:
    """The fields of jobs, each a flat list that is empty when the job is gone; none of those that
    are gone.
    """
    ...


@script(reply=raw)
async def rate_limit_ttl(redis: Client, keys: QueueKeys, *, max: str | int) -> int:
    """How long the rate limit lets nothing through, in milliseconds, when so many may start."""
    ...


class Standing(NamedTuple):
    """Where one job stands, and what its queue allows."""

    now_ms: int
    state: str
    ahead: int
    """Jobs that come before it; -1 when it does not wait."""
    fields: dict[bytes, bytes]
    lock: str | None
    lock_ms: int
    due_ms: int | None
    paused: bool
    concurrency: int | None
    """The most that may be active at once."""
    limit: int | None
    """The most that may start in a window, if that is set for the whole queue."""
    started: int | None
    """Jobs that the rate limit has counted in this window."""
    window_ms: int
    """What is left of the window."""
    active: int
    waiting: int


def _standing(answer: Any) -> Standing:
    now, state, ahead, fields, lock, lock_ms, due, rules, started, window_ms, active, waiting = (
        answer
    )
    paused, concurrency, limit = rules
    return Standing(
        now_ms=int(now),
        state=state.decode(),
        ahead=ahead,
        fields=dict(zip(fields[::2], fields[1::2], strict=True)),
        lock=None if lock is None else lock.decode("utf-8", "replace"),
        lock_ms=lock_ms,
        due_ms=None if due is None else int(due),
        paused=paused is not None,
        concurrency=_number(concurrency),
        limit=_number(limit),
        started=_number(started),
        window_ms=window_ms,
        active=active,
        waiting=waiting,
    )


def _number(text: bytes | None) -> int | None:
    # Another client may have written anything there.
    return int(text) if text is not None and text.isdigit() else None


@script(reply=_standing)
async def standing(
    redis: Client, keys: QueueKeys, *, base: str, now: str | int = SERVER_TIME, id: str
) -> Standing:
    """Where one job stands, and what its queue allows."""
    ...


class Extent(NamedTuple):
    """How much of a stream there was and is."""

    added: int | None
    """Entries since it began; None where the server does not count them."""
    length: int
    first: str
    last: str
    behind: int | None
    """Entries behind the place that was asked about."""

    @property
    def gone(self) -> int | None:
        """Entries that are kept no longer."""
        return None if self.added is None else self.added - self.length


def _extent(raw: Any) -> Extent:
    added, length, first, last, behind = raw
    return Extent(_known(added), length, first.decode(), last.decode(), _known(behind))


@script(reply=_extent)
async def extent(
    redis: Client, keys: QueueKeys, *, after: str = "", most: int = MOST_COUNTED
) -> Extent:
    """Read how many events there have been, and which are kept."""
    ...


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _schedulers(answer: Any) -> list[tuple[bytes, bytes | None, dict[bytes, bytes]]]:
    return [
        (score, mark, dict(zip(flat[::2], flat[1::2], strict=True))) for score, mark, flat in answer
    ]


@script(reply=_schedulers)
async def read_schedulers(
    redis: Client, keys: QueueKeys, *, base: str, ids: Sequence[str]
) -> list[tuple[bytes, bytes | None, dict[bytes, bytes]]]:
    """What is stored of schedulers: when each runs next, the mark of a paused one, its fields."""
    ...


@script(reply=id_or_code)
async def upsert_scheduler(
    redis: Client,
    keys: QueueKeys,
    *,
    base: str,
    scheduler: str,
    slot: str | int,
    every: str | int,
    offset: str | int,
    start_date: str | int,
    name: bytes,
    data: str | bytes,
    opts: str | bytes,
    id: str | bytes,
    priority: int,
    lifo: int,
    deduplication: str,
    fields: Sequence[str | bytes | int],
    now: str | int = SERVER_TIME,
) -> str | int:
    """Make a scheduler, or change one, and its next job."""
    ...


@script(reply=id_or_code)
async def advance_scheduler(
    redis: Client,
    keys: QueueKeys,
    *,
    base: str,
    scheduler: str,
    job: str,
    slot: str | int,
    opts: str | bytes,
    id: str | bytes,
    priority: int,
    lifo: int,
    deduplication: str,
    now: str | int = SERVER_TIME,
) -> str | int:
    """Make a scheduler's next job, if `job` is still the one that keeps it going."""
    ...


@script(reply=bool)
async def advance_repeatable(
    redis: Client,
    keys: QueueKeys,
    *,
    base: str,
    now: int,
    repeatable: str,
    previous: int,
    slot: int,
    job: str,
    name: str,
    data: bytes,
    opts: bytes,
    delay: int,
    priority: int,
    lifo: int,
) -> bool:
    """Make the next job of one of BullMQ 5's repeatable jobs, if the job of slot `previous` is
    still the one that keeps it going; False when this one makes none.
    """
    ...


@script(reply=raw)
async def pause_scheduler(
    redis: Client,
    keys: QueueKeys,
    *,
    base: str,
    now: str | int = SERVER_TIME,
    scheduler: str,
    by: str,
) -> int:
    """Stop a scheduler from making jobs: 1, 0 when it is paused already, -1 when there is none, -3
    for a repeatable job.
    """
    ...


@script(reply=id_or_code)
async def resume_scheduler(
    redis: Client,
    keys: QueueKeys,
    *,
    base: str,
    now: str | int = SERVER_TIME,
    scheduler: str,
    slot: str | int,
    opts: str | bytes,
    id: str | bytes,
    priority: int,
    lifo: int,
    deduplication: str,
) -> str | int:
    """Let a paused scheduler make jobs again."""
    ...


@script(reply=bool)
async def remove_scheduler(redis: Client, keys: QueueKeys, *, base: str, scheduler: str) -> bool:
    """Remove a scheduler, with its next job as long as that waits for its time."""
    ...
