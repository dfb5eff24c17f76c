"""When a job runs: now, later, or again and again."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError

from waystation.core import codec
from waystation.core.backoff import LONGEST_MS
from waystation.core.errors import InvalidInput, InvalidOption
from waystation.core.options import at_least
from waystation.core.store import faults
from waystation.core.store.script import Client
from waystation.routing.redis.keys import RoutingKeys

Overlap: TypeAlias = Literal["allow", "skip", "queue-one"]
Missed: TypeAlias = Literal["last", "all", "skip"]

MOST_MISSED = 1_000
"""Slots made up for at once; older ones are left out and told as skipped."""
GRACE_MS = 60_000
"""A slot that is not older than this is late, not missed."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """When a job may run; without anything, at once."""

    delay: int | None = None
    """Milliseconds from now."""
    run_at: int | None = None
    """Milliseconds since the epoch."""
    cron: str | None = None
    """Five fields, or six with seconds in front."""
    timezone: str | None = None
    """A name such as Europe/Vienna; without one, UTC."""
    overlap: Overlap = "allow"
    """What happens to a slot while the last one's job has not ended: run beside it, leave the slot
    out, or let at most one wait."""
    missed: Missed = "last"
    """Which slots are made up for after nobody was there to fire them."""

    def __post_init__(self) -> None:
        given = [name for name in ("delay", "run_at", "cron") if getattr(self, name) is not None]
        if len(given) > 1:
            raise InvalidOption(f"a schedule takes one of delay, run_at and cron, got {given}")
        for name in ("delay", "run_at"):
            value = getattr(self, name)
            if value is not None and at_least(name, value, 0) > LONGEST_MS:
                raise InvalidOption(f"{name} must be 0 to {LONGEST_MS} ms, got {value}")
        if self.overlap not in ("allow", "skip", "queue-one"):
            raise InvalidOption(f"overlap must be allow, skip or queue-one, got {self.overlap!r}")
        if self.missed not in ("last", "all", "skip"):
            raise InvalidOption(f"missed must be last, all or skip, got {self.missed!r}")
        if self.cron is not None:
            next_slot(self.cron, self.timezone, 0)
        elif self.timezone is not None:
            _zone(self.timezone)


class Turn(NamedTuple):
    """What is to be done about a schedule whose time has come."""

    fire: list[int]
    """The slots to make jobs for."""
    leave_out: list[int]
    """The slots that are told as skipped."""
    next_ms: int | None


def next_slot(expression: str, timezone: str | None, after_ms: int) -> int | None:
    """The first slot after an instant; None when there is none in the next decades."""
    zone = _zone(timezone)
    after = datetime.fromtimestamp(after_ms / 1000, zone)
    try:
        coming = CronSim(expression, after)
    except CronSimError as error:
        raise InvalidOption(f'Invalid cron expression "{expression}": {error}') from None
    # In the hour that an autumn night has twice, the wall clock's next slot may lie behind us.
    instants = (round(each.astimezone(UTC).timestamp() * 1000) for each in coming)
    return next((instant for instant in instants if instant > after_ms), None)


def next_slots(expression: str, timezone: str | None, after_ms: int, count: int) -> list[int]:
    """The next slots after an instant."""
    slots: list[int] = []
    while len(slots) < count:
        slot = next_slot(expression, timezone, slots[-1] if slots else after_ms)
        if slot is None:
            break
        slots.append(slot)
    return slots


def turn(schedule: Schedule, due_ms: int, now_ms: int) -> Turn:
    """Decide which of the slots from the due one up to now are fired."""
    if schedule.cron is None:
        raise InvalidOption("only a schedule with a cron expression has turns")
    slots = [due_ms]
    while (slot := next_slot(schedule.cron, schedule.timezone, slots[-1])) is not None:
        if slot > now_ms or len(slots) >= MOST_MISSED:
            break
        slots.append(slot)
    if slot is not None and slot <= now_ms:
        # Too many to count one by one: go on from now.
        slot = next_slot(schedule.cron, schedule.timezone, now_ms)
    match schedule.missed:
        case "all":
            fire = slots
        case "last":
            fire = slots[-1:]
        case "skip":
            fire = [each for each in slots[-1:] if now_ms - each <= GRACE_MS]
    kept = set(fire)
    return Turn(fire, [each for each in slots if each not in kept], slot)


@lru_cache
def _zone(name: str | None) -> ZoneInfo:
    try:
        return ZoneInfo(name or "UTC")
    except (ValueError, OSError, KeyError):
        raise InvalidOption(
            f"timezone must be a name such as Europe/Vienna, got {name!r}"
        ) from None


PER_CALL = 500


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """One schedule; what cannot be read of it is left empty."""

    id: str
    next_ms: float
    """Milliseconds since the epoch."""
    type: str = ""
    cron: str = ""
    timezone: str = "UTC"


class _Scheduled(msgspec.Struct, frozen=True):
    """The part of a job's JSON that a schedule is about."""

    type: str
    schedule: Schedule = Schedule()


async def planned(client: Client, keys: RoutingKeys) -> list[Planned]:
    """Every schedule, the next to fire first."""
    with faults.translated():
        found: Any = await client.execute_command("ZRANGE", keys.cron, 0, -1, "WITHSCORES")
    pairs = [(found[at].decode(), float(found[at + 1])) for at in range(0, len(found), 2)]
    schedules: list[Planned] = []
    for first in range(0, len(pairs), PER_CALL):
        page = pairs[first : first + PER_CALL]
        with faults.translated():
            texts = await client.execute_command("MGET", *(keys.of(id).data for id, _ in page))
        for (id, next_ms), raw in zip(page, texts, strict=True):
            schedules.append(_read(Planned(id=id, next_ms=next_ms), raw))
    return schedules


def _read(bare: Planned, raw: bytes | None) -> Planned:
    try:
        job = codec.decode(raw or b"", _Scheduled)
    except InvalidInput:
        return bare
    cron, timezone = job.schedule.cron or "", job.schedule.timezone or "UTC"
    return msgspec.structs.replace(bare, type=job.type, cron=cron, timezone=timezone)
