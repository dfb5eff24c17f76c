"""Schedules: when the jobs of a scheduler are due, and how a scheduler is stored."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeAlias, cast

import msgspec

from waystation.bullmq.options import instant_ms
from waystation.bullmq.scheduling import cron
from waystation.core import codec
from waystation.core.durations import Duration, milliseconds, possible_instant, possible_timedelta
from waystation.core.errors import InvalidOption, Malformed
from waystation.core.options import check_fields

RepeatStrategy: TypeAlias = Callable[
    [datetime, "Scheduler"], "datetime | Awaitable[datetime | None] | None"
]
"""Takes an instant and a scheduler; returns when its next job is due, or None for no more."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """When jobs are due: at an interval, or by a cron pattern."""

    every: Duration | None = None
    """The interval between two jobs."""
    pattern: str | None = None
    """Five cron fields, or six with the seconds first."""
    tz: str | None = None
    """The time zone of the pattern; None means the machine's own."""
    limit: int | None = None
    """Jobs in all."""
    start_date: datetime | None = None
    """No job is due before this instant."""
    end_date: datetime | None = None
    """No job is due after this instant."""
    offset: Duration | None = None
    """How long after the start of each interval of `every` its job is due."""
    immediately: bool = False
    """The first job of a pattern is due now."""
    custom: bool = False
    """The pattern is not cron: the `repeat_strategy` of the queue and of its workers reads it."""

    def __post_init__(self) -> None:
        check_fields(self)
        if (self.every is None) == (self.pattern is None):
            raise InvalidOption("a schedule has either `every` or a `pattern`")
        if self.every is not None and milliseconds(self.every, "every", above=0) < 1:
            raise InvalidOption(f"every must be at least a millisecond, got {self.every!r}")
        _positive("limit", self.limit)
        if self.offset is not None:
            inside = milliseconds(self.offset, "offset")
            if self.every is None or inside >= milliseconds(self.every):
                raise InvalidOption(f"offset must be less than `every`, got {self.offset!r}")
        if self.immediately and self.start_date is not None:
            raise InvalidOption("a schedule begins immediately or at a start date, not both")
        start, end = _ms("start_date", self.start_date), _ms("end_date", self.end_date)
        if start is not None and end is not None and end <= start:
            raise InvalidOption("end_date must be after start_date")
        if self.pattern is not None and not self.custom:
            cron.check(self.pattern, self.tz)


class Scheduler(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler as it is stored."""

    id: str
    """The id it was upserted under."""
    name: str
    """The name of its jobs."""
    next_ms: int | None
    """Milliseconds since 1970 at which its next job is due."""
    iteration_count: int = 1
    """How many jobs it has made."""
    every_ms: int | None = None
    """The time between two jobs, when it has no pattern."""
    pattern: str | None = None
    """A cron pattern, when it has no `every`."""
    tz: str | None = None
    """The time zone of the pattern; None means the machine's own."""
    limit: int | None = None
    """How many jobs it makes at the most."""
    start_ms: int | None = None
    """It makes no job before this moment."""
    end_ms: int | None = None
    """It makes no job after this moment."""
    offset_ms: int | None = None
    """How far its jobs are moved from whole multiples of `every`."""
    data: Any = None
    """The data of its jobs."""
    options: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    """The options of its jobs, under the wire's names."""
    paused_ms: int | None = None
    """Since when it makes no jobs; None while it does."""
    paused_by: str = ""
    """Who paused it, where that was said."""
    started_again: bool = False
    """It was paused, and a program that knows of no pause, such as Node's, has made it again."""

    @property
    def paused_at(self) -> datetime | None:
        """Since when it makes no jobs; None while it does."""
        return possible_instant(self.paused_ms)

    @property
    def next_at(self) -> datetime | None:
        """The instant at which its next job is due."""
        return possible_instant(self.next_ms)

    @property
    def every(self) -> timedelta | None:
        """The interval between two jobs."""
        return None if self.every_ms is None else possible_timedelta(self.every_ms)

    @property
    def offset(self) -> timedelta | None:
        """How long after the start of each interval its job is due."""
        return None if self.offset_ms is None else possible_timedelta(self.offset_ms)

    @property
    def start_date(self) -> datetime | None:
        """No job is due before this instant."""
        return possible_instant(self.start_ms)

    @property
    def end_date(self) -> datetime | None:
        """No job is due after this instant."""
        return possible_instant(self.end_ms)


def read_scheduler(
    scheduler_id: str, fields: Mapping[bytes, bytes], score: bytes | None
) -> Scheduler:
    """A scheduler from its hash; the score is when its next job is due."""

    def number(field: bytes) -> int | None:
        return whole(fields.get(field))

    def text(field: bytes) -> str | None:
        return fields[field].decode("utf-8", "replace") if field in fields else None

    options = _json(fields.get(b"opts"), {})
    return Scheduler(
        id=scheduler_id,
        name=text(b"name") or scheduler_id,
        next_ms=whole(score),
        iteration_count=number(b"ic") or 1,
        every_ms=number(b"every"),
        pattern=text(b"pattern"),
        tz=text(b"tz"),
        limit=number(b"limit"),
        start_ms=number(b"startDate"),
        end_ms=number(b"endDate"),
        offset_ms=number(b"offset"),
        data=_json(fields.get(b"data"), {}),
        options=cast(dict[str, Any], options) if isinstance(options, dict) else {},
    )


class ScheduleMs(msgspec.Struct, frozen=True):
    """The times of a schedule in milliseconds, as the wire has them."""

    every: int | None
    offset: int | None
    start: int | None
    end: int | None


def in_ms(schedule: Schedule) -> ScheduleMs:
    """The times of a schedule in milliseconds."""
    return ScheduleMs(
        every=None if schedule.every is None else milliseconds(schedule.every),
        offset=None if schedule.offset is None else milliseconds(schedule.offset),
        start=_ms("start_date", schedule.start_date),
        end=_ms("end_date", schedule.end_date),
    )


def wire_times(schedule: Schedule) -> dict[str, Any]:
    """The schedule under the wire's names, without what was not given."""
    times = in_ms(schedule)
    named = {
        "tz": schedule.tz,
        "limit": schedule.limit,
        "pattern": schedule.pattern,
        "startDate": times.start,
        "endDate": times.end,
        "every": times.every,
    }
    return {name: value for name, value in named.items() if value is not None}


def _ms(name: str, instant: datetime | None) -> int | None:
    return None if instant is None else instant_ms(name, instant)


def _json(raw: bytes | None, otherwise: Any) -> Any:
    try:
        return otherwise if raw is None else codec.decode(raw)
    except Malformed:
        return otherwise


def whole(value: Any) -> int | None:
    """A whole number from a stored value; None when it is not a number."""
    try:
        return int(float(value))
    except (TypeError, ValueError, OverflowError):
        return None


def _positive(name: str, value: Any) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise InvalidOption(f"{name} must be a whole number above 0, got {value!r}")
