"""Schedules: jobs that run later or repeatedly."""

import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError

from waystation.core import codec
from waystation.core.backoff import LONGEST_MS
from waystation.core.durations import Duration, milliseconds, possible_instant
from waystation.core.errors import InvalidInput, InvalidOption
from waystation.core.options import at_least, check_fields, checked, of_kind
from waystation.core.store.connection import Store
from waystation.routing.redis.keys import RoutingKeys

Overlap: TypeAlias = Literal["allow", "skip", "queue-one"]
Missed: TypeAlias = Literal["last", "all", "skip"]

MOST_MISSED = 1_000
"""Slots made up for at once, the newest; older ones are reported as skipped, in one range."""
GRACE_MS = 60_000
"""A slot that is not older than this is late, not missed."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """When a job may run; at once without any field."""

    delay: Duration | None = None
    """How long it waits."""
    run_at: datetime | None = None
    """The instant, with a time zone."""
    cron: str | None = None
    """When it repeats: five fields, or six with seconds in front."""
    timezone: str | None = None
    """The time zone of `cron`, such as Europe/Vienna; UTC without one."""
    overlap: Overlap = "allow"
    """What happens to a slot while the job of the last one has not ended: run both, skip the slot,
    or, with `queue-one`, skip it only while that job has not been started."""
    missed: Missed = "last"
    """Which slots are made up for after no scheduler was running."""

    def __post_init__(self) -> None:
        check_fields(self)
        given = [name for name in ("delay", "run_at", "cron") if getattr(self, name) is not None]
        if len(given) > 1:
            raise InvalidOption(f"a schedule takes one of delay, run_at and cron, got {given}")
        if (self.delay_ms or 0) > LONGEST_MS:
            most = LONGEST_MS // 1000
            raise InvalidOption(f"delay must be at most {most} seconds, got {self.delay!r}")
        if self.run_at is not None:
            of_kind("run_at", self.run_at, datetime)
            if self.run_at.tzinfo is None:
                raise InvalidOption(f"run_at must have a time zone, got {self.run_at!r}")
        if self.cron is not None:
            of_kind("cron", self.cron, str)
            next_slot(self.cron, self.timezone, 0)
        elif self.timezone is not None:
            _zone(self.timezone)

    @property
    def delay_ms(self) -> int | None:
        """The delay in milliseconds."""
        return None if self.delay is None else milliseconds(self.delay, "delay")

    @property
    def run_at_ms(self) -> int | None:
        """The instant in milliseconds since the epoch, not before it."""
        return None if self.run_at is None else max(0, round(self.run_at.timestamp() * 1000))


class Turn(NamedTuple):
    """The slots of a schedule that is due."""

    fire: list[int]
    """The slots to make jobs for."""
    leave_out: list[int]
    """The slots that are reported as skipped, one by one."""
    next_ms: int | None
    older: tuple[int, int] | None = None
    """The first instant and the last of those that are reported as skipped together."""


def next_slot(expression: str, timezone: str | None, after_ms: int) -> int | None:
    """The first slot after an instant; None when there is none in the next decades."""
    return next(_slots(expression, timezone, after_ms), None)


def _slots(expression: str, timezone: str | None, after_ms: int) -> Iterator[int]:
    after = datetime.fromtimestamp(after_ms / 1000, _zone(timezone))
    try:
        coming = CronSim(expression, after)
    except (CronSimError, ValueError) as error:
        # Python makes no number of thousands of digits.
        raise InvalidOption(f'Invalid cron expression "{expression}": {error}') from None
    # In the hour that an autumn night has twice, the wall clock's next slot may lie behind us.
    instants = (round(each.astimezone(UTC).timestamp() * 1000) for each in coming)
    return (instant for instant in instants if instant > after_ms)


def turn(schedule: Schedule, due_ms: int, now_ms: int) -> Turn:
    """Decide which of the slots from the due one up to now are fired."""
    if schedule.cron is None:
        raise InvalidOption("only a schedule with a cron expression has turns")
    slots = _newest(schedule.cron, schedule.timezone, due_ms, now_ms)
    match schedule.missed:
        case "all":
            fire = slots
        case "last":
            fire = slots[-1:]
        case "skip":
            fire = [each for each in slots[-1:] if now_ms - each <= GRACE_MS]
    kept = set(fire)
    return Turn(
        fire,
        [each for each in slots if each not in kept],
        next_slot(schedule.cron, schedule.timezone, max(now_ms, due_ms)),
        (due_ms, slots[0] - 1) if slots[0] > due_ms else None,
    )


def _newest(cron: str, timezone: str | None, due_ms: int, now_ms: int) -> list[int]:
    """The newest slots from the due one up to now, as many as are made up for."""
    reach_ms = 1_000 * MOST_MISSED
    while True:
        first = max(due_ms, now_ms - reach_ms)
        slots = deque([due_ms] if first == due_ms else [], maxlen=MOST_MISSED)
        slots.extend(
            itertools.takewhile(lambda slot: slot <= now_ms, _slots(cron, timezone, first))
        )
        if first == due_ms or len(slots) == MOST_MISSED:
            return list(slots)
        reach_ms *= 2


@lru_cache
def _zone(name: str | None) -> ZoneInfo:
    try:
        return ZoneInfo(name or "UTC")
    except (ValueError, OSError, KeyError):
        raise InvalidOption(
            f"timezone must be a name such as Europe/Vienna, got {name!r}"
        ) from None


PER_CALL = 500


class ScheduledJob(msgspec.Struct, frozen=True, kw_only=True):
    """A cron schedule; what cannot be read of it is left empty."""

    id: str
    """The id of the schedule."""
    next_ms: float
    """Milliseconds since the epoch of the next slot."""
    type: str = ""
    """The type of the jobs that it adds."""
    cron: str = ""
    """Its cron expression."""
    timezone: str = "UTC"
    """The time zone that the expression is read in."""

    @property
    def next_at(self) -> datetime | None:
        """When it fires next; None when it never will."""
        return possible_instant(self.next_ms)


@checked
class Schedules:
    """The cron schedules of a queue: `queue.schedules`."""

    def __init__(
        self,
        connected: Callable[[], Awaitable[Store]],
        keys: RoutingKeys,
        cancel: Callable[..., Awaitable[int]],
    ) -> None:
        """Internal: a queue makes it."""
        self._connected = connected
        self._keys = keys
        self._cancel = cancel

    async def list(self, offset: int = 0, limit: int | None = None) -> list[ScheduledJob]:
        """Schedules, the next to fire first."""
        store = await self._connected()
        last = (
            -1 if limit is None else at_least("offset", offset, 0) + at_least("limit", limit, 1) - 1
        )
        found = await store.ask("ZRANGE", self._keys.cron, offset, last, "WITHSCORES")
        pairs = [(codec.as_text(found[at]), float(found[at + 1])) for at in range(0, len(found), 2)]
        schedules: list[ScheduledJob] = []
        for start in range(0, len(pairs), PER_CALL):
            page = pairs[start : start + PER_CALL]
            texts = await store.ask("MGET", *(self._keys.of(id).data for id, _ in page))
            schedules += [_read(*each, raw) for each, raw in zip(page, texts, strict=True)]
        return schedules

    async def get(self, id: str) -> ScheduledJob | None:
        """The schedule of that id; None when there is none."""
        store = await self._connected()
        next_ms = await store.ask("ZSCORE", self._keys.cron, id)
        raw = await store.ask("GET", self._keys.of(id).data)
        return None if next_ms is None else _read(id, float(next_ms), raw)

    async def count(self) -> int:
        """The number of schedules."""
        return await (await self._connected()).ask("ZCARD", self._keys.cron)

    async def remove(self, *ids: str) -> int:
        """End schedules; how many there were. Jobs that they have made go on."""
        known = [id for id in ids if await self.get(id)]
        return await self._cancel(*known)


class _Wanted(msgspec.Struct, frozen=True):
    cron: str | None = None
    timezone: str | None = None


class _Scheduled(msgspec.Struct, frozen=True):
    """The part of a job's JSON that is about its schedule."""

    type: str
    schedule: _Wanted = _Wanted()


def _read(id: str, next_ms: float, raw: bytes | None) -> ScheduledJob:
    try:
        job = codec.decode(raw or b"", _Scheduled)
    except InvalidInput:
        return ScheduledJob(id=id, next_ms=next_ms)
    cron, timezone = job.schedule.cron or "", job.schedule.timezone or "UTC"
    return ScheduledJob(id=id, next_ms=next_ms, type=job.type, cron=cron, timezone=timezone)
