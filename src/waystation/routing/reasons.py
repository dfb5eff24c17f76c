"""Reasons: why a job waits, runs or has ended."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from waystation.core import codec
from waystation.core.clock import SERVER_TIME
from waystation.core.durations import possible_instant
from waystation.core.errors import Malformed
from waystation.core.store.script import Client
from waystation.routing.job import Job
from waystation.routing.redis import scripts
from waystation.routing.redis.keys import RoutingKeys
from waystation.routing.registry import profiles_of, registered
from waystation.routing.results import CancelledByCaller, DeadLetter, Result, foreign_letter


class Why(StrEnum):
    """The kinds of reasons."""

    READY = "ready"
    """It waits, and a live worker can take it."""
    UNMATCHED = "unmatched"
    """No live worker has what it asks for."""
    PAUSED = "paused"
    LIMITED = "limited"
    """As many of its type run, or were started this minute, as may."""
    LOCKED = "locked"
    """Another client holds its lock while it waits."""
    HELD = "held"
    """It waits for other jobs."""
    DELAYED = "delayed"
    RETRYING = "retrying"
    """An attempt has failed, and the next one waits for its time."""
    SCHEDULED = "scheduled"
    ACTIVE = "active"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"
    """Another client says that it failed."""
    DEAD = "dead"


class Lack(StrEnum):
    """What no live worker has that a job needs."""

    WORKER = "worker"
    """No worker is alive at all."""
    TYPE = "type"
    """No handler for its type."""
    SERVER = "server"
    STACK = "stack"
    CAPABILITIES = "capabilities"
    REGION = "region"
    AVOID = "avoid"
    """Every worker is one that it avoids."""


class Reason(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One reason, for programs and for people."""

    why: Why
    """The kind of reason, for programs."""
    text: str
    """The reason as a sentence."""
    until_ms: float | None = None
    """When it ends by itself, in milliseconds since the epoch; None where that is not known."""
    ahead: int = 0
    """Jobs before it, of one that waits and can be taken."""
    worker: str = ""
    """The worker that has it."""
    lacks: tuple[Lack, ...] = ()
    """What the worker lacks that comes nearest, or all of them."""
    code: str = ""
    """The code of the error for which it is a dead letter, or `FAILED`."""

    @property
    def until(self) -> datetime | None:
        """When it ends by itself; None where that is not known."""
        return possible_instant(self.until_ms)


class Obstacles(msgspec.Struct, frozen=True, kw_only=True):
    """What keeps waiting jobs with one set of needs from running."""

    workers: int
    nearest: str
    missing: tuple[str, ...]
    reasons: tuple[Reason, ...]


def obstacles(needs: Sequence[Any], raw: Sequence[Any], *, anybody: bool) -> Obstacles:
    """Read what the scripts found; `anybody` is whether any worker is alive."""
    workers, lacks, nearest, paused, limited, until, most, running, a_minute, started = raw
    missing: tuple[str, ...] = ()
    reasons: list[Reason] = []
    if paused:
        reasons.append(Reason(why=Why.PAUSED, text=f"type {needs[0]} is paused"))
    if limited and until:
        text = f"{int(started):,} of {int(a_minute):,} were started this minute"
        until_ms = float(until)
        text = f"limited until {instant(until_ms)}: {text}"
        reasons.append(Reason(why=Why.LIMITED, text=text, until_ms=until_ms))
    elif limited and most:
        text = f"limited: {int(running):,} of {int(most):,} run"
        reasons.append(Reason(why=Why.LIMITED, text=text))
    if not workers:
        found = codec.decode(lacks, list[tuple[Lack, list[str]]]) if anybody else []
        missing = _missing(needs, found) if anybody else ("no worker is alive",)
        kinds = tuple(kind for kind, _ in found) if anybody else (Lack.WORKER,)
        text = _unmatched(codec.as_text(nearest), missing)
        reasons.append(Reason(why=Why.UNMATCHED, text=text, lacks=kinds))
    return Obstacles(
        workers=workers, nearest=codec.as_text(nearest), missing=missing, reasons=tuple(reasons)
    )


def instant(ms: float) -> str:
    """An instant as people read it; one that cannot be is never."""
    found = possible_instant(ms)
    return f"{found:%Y-%m-%d %H:%M:%S} UTC" if found else "never"


def _unmatched(nearest: str, missing: tuple[str, ...]) -> str:
    if not nearest:
        return f"nobody fits: {'; '.join(missing)}"
    return f"nobody fits; worker {nearest} is the nearest, missing: {'; '.join(missing)}"


_SENTENCES = {
    Lack.TYPE: "no handler for {}",
    Lack.SERVER: "server {} is not here",
    Lack.STACK: "stack {}",
    Lack.CAPABILITIES: "capability {}",
    Lack.REGION: "region {}",
    Lack.AVOID: "another server than {}",
}


_CATEGORIES = (Lack.STACK, Lack.CAPABILITIES, Lack.REGION)


def _missing(needs: Sequence[Any], lacks: list[tuple[Lack, list[str]]]) -> tuple[str, ...]:
    comma = ", " if needs[1] == "all" else " or "
    said = [
        (category, _SENTENCES[category].format(comma.join(values))) for category, values in lacks
    ]
    if len(needs) < 8 or needs[7].get("match") != "category-any":
        return tuple(words for _, words in said)
    # Any one of the categories would do, the rest is needed besides.
    either = " or ".join(words for category, words in said if category in _CATEGORIES)
    others = [words for category, words in said if category not in _CATEGORIES]
    return tuple(others + ([either] if either else []))


_CANCELLED = CancelledByCaller.__name__
DEEPEST = 20
"""How far a chain of jobs that wait for each other is followed."""


class _Facts(msgspec.Struct, frozen=True, array_like=True):
    """What the script replies."""

    status: bytes | None
    data: bytes | None
    result: bytes | None
    meta: bytes | None
    active: int
    worker: bytes | None
    since: bytes | None
    lock: bytes | None
    lock_ms: int
    due: bytes | None
    fires: bytes | None
    place: int | None
    route: bytes | None
    keeps: list[Any]
    awaited: list[bytes]


async def why(
    client: Client, keys: RoutingKeys, id: str, *, now: str | int = SERVER_TIME
) -> list[Reason]:
    """Every reason why a job is where it is; none when nobody knows the job."""
    alive = [worker for worker in await registered(client, keys) if worker.alive]

    async def facts(id: str) -> _Facts:
        raw = await scripts.why(client, keys, now=now, profiles=profiles_of(alive), id=id)
        return _Facts(*raw)

    found = await facts(id)
    if not found.awaited:
        return _reasons(found, anybody=bool(alive))
    reasons: list[Reason] = []
    for other, status in _pairs(found.awaited):
        text = f"waits for job {other}, which is {status or 'gone'}"
        # What it waits for may itself wait; the end of the chain is what can be changed.
        seen = {id, other}
        for _ in range(DEEPEST):
            further = _blocker(await facts(other), seen)
            if further is None:
                break
            other, status = further
            seen.add(other)
            text += f" and waits for job {other}, which is {status or 'gone'}"
        reasons.append(Reason(why=Why.HELD, text=text))
    return reasons


def _blocker(found: _Facts, seen: set[str]) -> tuple[str, str] | None:
    """The job it waits for that is worth naming: one that has ended, else the first."""
    open = [pair for pair in _pairs(found.awaited) if pair[0] not in seen]
    ended = [pair for pair in open if pair[1] in ("dead", "")]
    return next(iter(ended or open), None)


def _reasons(found: _Facts, *, anybody: bool) -> list[Reason]:
    job, result = _job(found.data), _result(found.result)
    if found.active:
        return [_active(found)]
    if found.place is not None:
        return _waiting(found, anybody=anybody)
    if found.due is not None:
        return [_delayed(float(found.due), job, result)]
    if found.fires is not None:
        at = float(found.fires)
        return [Reason(why=Why.SCHEDULED, text=f"fires next at {instant(at)}", until_ms=at)]
    match found.status:
        case b"dead":
            return [_dead(found)]
        case b"completed":
            return [Reason(why=Why.COMPLETED, text=f"completed{_at(result)}")]
        case b"failed" if result and result.error and result.error.name == _CANCELLED:
            return [Reason(why=Why.CANCELLED, text=f"cancelled{_at(result)}")]
        case b"failed":
            return [Reason(why=Why.FAILED, text=f"failed{_at(result)}{_of(result)}")]
        case _:
            return []


def _active(found: _Facts) -> Reason:
    worker = (found.worker or found.lock or b"somebody").decode(errors="replace")
    since = f" since {instant(float(found.since))}" if found.since else ""
    return Reason(why=Why.ACTIVE, text=f"worker {worker} has it{since}", worker=worker)


def _waiting(found: _Facts, *, anybody: bool) -> list[Reason]:
    if found.lock is not None:
        lasts = f" for another {found.lock_ms / 1000:.0f} s" if found.lock_ms >= 0 else ""
        owner = found.lock.decode(errors="replace")
        return [Reason(why=Why.LOCKED, text=f"{owner} has locked it{lasts}")]
    if not (found.route and found.keeps):
        return []
    kept = obstacles(codec.decode(found.route[1:]), found.keeps, anybody=anybody)
    if kept.reasons:
        return list(kept.reasons)
    workers, in_front = _count(kept.workers, "live worker"), _count(found.place or 0, "job")
    text = f"can be taken by {workers}, behind {in_front}"
    return [Reason(why=Why.READY, text=text, ahead=found.place or 0)]


def _delayed(due_ms: float, job: Job | None, result: Result | None) -> Reason:
    if job is not None and job.attempts:
        text = (
            f"attempt {job.attempts} of {job.max_attempts} failed{_of(result)}, "
            f"the next one is due at {instant(due_ms)}"
        )
        return Reason(why=Why.RETRYING, text=text, until_ms=due_ms)
    return Reason(why=Why.DELAYED, text=f"due at {instant(due_ms)}", until_ms=due_ms)


def _dead(found: _Facts) -> Reason:
    try:
        letter = codec.decode(found.meta or b"", DeadLetter)
    except Malformed:
        letter = foreign_letter("", found.data, found.result)
    cause = f": {letter.reason}" if letter.reason else ""
    if letter.error.name:
        cause += f", {letter.error.name}: {letter.error.message}"
    text = f"dead after {_count(letter.attempts, 'attempt')}{cause}"
    return Reason(why=Why.DEAD, text=text, code=letter.reason)


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _at(result: Result | None) -> str:
    return f" at {instant(result.completed_ms)}" if result and result.completed_ms else ""


def _of(result: Result | None) -> str:
    if result is None or result.error is None:
        return ""
    return f" ({result.error.name}: {result.error.message})"


def _job(data: bytes | None) -> Job | None:
    try:
        return Job("", data) if data else None
    except Malformed:
        return None


def _result(raw: bytes | None) -> Result | None:
    try:
        return codec.decode(raw, Result) if raw else None
    except Malformed:
        return None


def _pairs(flat: Sequence[bytes]) -> list[tuple[str, str]]:
    texts = [each.decode(errors="replace") for each in flat]
    return list(zip(texts[::2], texts[1::2], strict=True))
