"""When the jobs of a scheduler come, and how that stands in its record."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, TypeAlias, cast

import msgspec

from waystation.bullmq.scheduling import cron
from waystation.core import codec
from waystation.core.errors import InvalidOption, Malformed
from waystation.core.options import of_kind

RepeatStrategy: TypeAlias = Callable[[int, "Scheduler"], "int | Awaitable[int | None] | None"]
"""From a millisecond and a scheduler: the millisecond of its next job, or None for no more."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """When jobs come: every so many milliseconds, or by a cron pattern."""

    every: int | None = None
    """Milliseconds from one job to the next."""
    pattern: str | None = None
    """Five cron fields, or six with the seconds first."""
    tz: str | None = None
    """The time zone of the pattern; None means the machine's own."""
    limit: int | None = None
    """Jobs in all."""
    start_date: int | datetime | None = None
    """No job comes before; milliseconds or a datetime with a time zone."""
    end_date: int | datetime | None = None
    """No job comes after."""
    offset: int | None = None
    """Milliseconds into each stretch of `every` at which its job comes."""
    immediately: bool = False
    """The first job of a pattern comes now."""
    custom: bool = False
    """The pattern is not cron: the `repeat_strategy` of the queue and of its workers reads it."""

    def __post_init__(self) -> None:
        if (self.every is None) == (self.pattern is None):
            raise InvalidOption("a schedule has either `every` or a `pattern`")
        for name in ("every", "limit"):
            _positive(name, getattr(self, name))
        if self.offset is not None and not (self.every and 0 <= self.offset < self.every):
            raise InvalidOption(f"offset must lie inside of `every`, got {self.offset}")
        if self.immediately and self.start_date is not None:
            raise InvalidOption("a schedule begins immediately or at a start date, not both")
        start, end = millis(self.start_date), millis(self.end_date)
        if start is not None and end is not None and end <= start:
            raise InvalidOption("end_date must lie behind start_date")
        if self.pattern is not None and not self.custom:
            cron.check(self.pattern, self.tz)


class Scheduler(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler as it stands in the store, whoever made it."""

    id: str
    name: str
    next: int | None
    """The millisecond of the job that keeps it going."""
    iteration_count: int = 1
    every: int | None = None
    pattern: str | None = None
    tz: str | None = None
    limit: int | None = None
    start_date: int | None = None
    end_date: int | None = None
    offset: int | None = None
    data: Any = None
    options: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    """What its jobs are given, under the wire's names."""


def read_scheduler(
    scheduler_id: str, fields: Mapping[bytes, bytes], score: bytes | None
) -> Scheduler:
    """The scheduler that a record tells of, with the score that says when it runs next."""

    def number(field: bytes) -> int | None:
        return whole(fields.get(field))

    def text(field: bytes) -> str | None:
        return fields[field].decode() if field in fields else None

    options = _json(fields.get(b"opts"), {})
    return Scheduler(
        id=scheduler_id,
        name=text(b"name") or scheduler_id,
        next=whole(score),
        iteration_count=number(b"ic") or 1,
        every=number(b"every"),
        pattern=text(b"pattern"),
        tz=text(b"tz"),
        limit=number(b"limit"),
        start_date=number(b"startDate"),
        end_date=number(b"endDate"),
        offset=number(b"offset"),
        data=_json(fields.get(b"data"), {}),
        options=cast(dict[str, Any], options) if isinstance(options, dict) else {},
    )


def wire_times(schedule: Schedule) -> dict[str, Any]:
    """The schedule under the wire's names; what it does not say is left out."""
    named = {
        "tz": schedule.tz,
        "limit": schedule.limit,
        "pattern": schedule.pattern,
        "startDate": millis(schedule.start_date),
        "endDate": millis(schedule.end_date),
        "every": schedule.every,
    }
    return {name: value for name, value in named.items() if value is not None}


def millis(instant: int | datetime | None) -> int | None:
    """An instant in milliseconds."""
    if instant is None or isinstance(instant, int):
        return instant
    of_kind("a date that is not given in milliseconds", instant, datetime)
    if instant.tzinfo is None:
        raise InvalidOption(f"a date needs a time zone, got {instant.isoformat()}")
    return int(instant.timestamp() * 1000)


def _json(raw: bytes | None, otherwise: Any) -> Any:
    try:
        return otherwise if raw is None else codec.decode(raw)
    except Malformed:
        return otherwise


def whole(value: Any) -> int | None:
    """A number that somebody wrote; None when it is none."""
    try:
        return int(float(value))
    except (TypeError, ValueError, OverflowError):
        return None


def _positive(name: str, value: Any) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise InvalidOption(f"{name} must be a whole number above 0, got {value!r}")
