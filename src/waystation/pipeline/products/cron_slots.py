"""Slots of cron schedules: those that are expected, and those that were fired or skipped."""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from waystation.core.errors import InvalidOption
from waystation.core.events import Product
from waystation.pipeline.storage.arrow import pa, pc
from waystation.pipeline.storage.sql import Frame, grouped, select
from waystation.pipeline.tables import (
    DAY,
    FLAG,
    INSTANT,
    INT,
    LAST_MS,
    LONG,
    TEXT,
    Column,
    Layer,
    Table,
)
from waystation.routing.schedules import next_slot

LATE_MS = 5_000
"""Delay from which on a slot is late."""
AT_ONCE = 100_000
"""Expected slots from which on the days that they are of are written."""

_DAY_MS = 86_400_000
_QUEUE = Column("queue", TEXT, "job type")
_SCHEDULE = Column("schedule", TEXT, "id of the schedule")
_SLOT = Column("slot", INSTANT, "when it should fire")
_DATE = Column("date", DAY, "day of `slot`, in UTC")

FIRED_SLOTS = Table(
    name="fired_slots",
    layer=Layer.SILVER,
    meaning="one row for each slot of a schedule that was fired or skipped, which `cron_slots` is "
    "computed from",
    key=("product", "queue", "schedule", "slot", "job_id"),
    partitions=("date",),
    columns=(
        Column("product", TEXT, "product: routing"),
        _QUEUE,
        _SCHEDULE,
        _SLOT,
        Column("job_id", TEXT, "id of the job of this slot"),
        Column("fired", INT, "times it fired"),
        Column("fired_at", INSTANT, "when it first fired"),
        Column("skipped", TEXT, "why it was skipped, where the event has it"),
        _DATE,
    ),
)

SCHEDULES = Table(
    name="schedules",
    layer=Layer.SILVER,
    meaning="one row for each cron schedule, and for each time that it was added again",
    key=("queue", "schedule", "added_at"),
    columns=(
        _QUEUE,
        _SCHEDULE,
        Column("cron", TEXT, "cron expression"),
        Column("timezone", TEXT, "time zone that the expression is read in"),
        Column("added_at", INSTANT, "when it was added"),
        Column("first_slot", INSTANT, "when it should fire first"),
        Column("ended_at", INSTANT, "when it was cancelled; null while it is active"),
    ),
)

CRON_SLOTS = Table(
    name="cron_slots",
    layer=Layer.GOLD,
    meaning="one row for each slot of a schedule: expected by its cron expression, and fired",
    key=("queue", "schedule", "slot"),
    partitions=("date",),
    columns=(
        _QUEUE,
        _SCHEDULE,
        _SLOT,
        Column("expected", FLAG, "whether the cron expression has this slot"),
        Column("fired", INT, "times it fired"),
        Column("fired_at", INSTANT, "when it first fired"),
        Column("late_ms", LONG, "milliseconds from `slot` to `fired_at`"),
        Column("skipped", TEXT, "why it was skipped, where the event has it"),
        Column("verdict", TEXT, "on time, late, doubled, skipped, missed or unexpected"),
        _DATE,
    ),
)


def instant(name: str) -> str:
    """SQL: the instant in one of an event's own fields; null when there is none in it."""
    millis = f"try_cast(fields['{name}'] as bigint)"
    return f"case when {millis} between 0 and {LAST_MS} then timestamp_millis({millis}) end"


# One row for each event.
_NAMED = (
    *("product", "queue", "job_id", "event", "`at`", "fields['schedule'] as schedule"),
    "fields['reason'] as reason",
    f"{instant('slot')} as slot",
)
_IS_OURS = f"product = '{Product.ROUTING.value}' and event in ('fired', 'skipped')"
_TOLD = (
    *("product", "queue", "schedule", "slot", "job_id"),
    "case when event = 'fired' then 1 else 0 end as fired",
    "case when event = 'fired' then `at` end as fired_at",
    "case when event = 'skipped' then reason end as skipped",
)
_ADDED_UP = (
    "cast(sum(fired) as int) as fired",
    "min(fired_at) as fired_at",
    "max(skipped) as skipped",
    "to_date(min(slot)) as `date`",
)

SLOT = ("queue", "schedule", "slot")
_EXPECTED = (
    *SLOT,
    *("true as expected", "0 as fired", "nullif(slot, slot) as fired_at"),
    f"cast(null as {TEXT}) as skipped",
)
_FIRED = (*SLOT, "false as expected", "fired", "fired_at", "skipped")
_KNOWN = (
    "max(expected) as expected",
    "cast(sum(fired) as int) as fired",
    "min(fired_at) as fired_at",
    "max(skipped) as skipped",
)
_LATE = "unix_millis(fired_at) - unix_millis(slot) as late_ms"
_VERDICT = f"""case when fired > 1 then 'doubled'
    when fired = 1 and not expected then 'unexpected'
    when fired = 1 and late_ms > {LATE_MS} then 'late'
    when fired = 1 then 'on time'
    when skipped is not null then 'skipped'
    else 'missed' end as verdict"""


def rows_from_events(events: Frame) -> Frame:
    """Events as rows of `fired_slots`, one for each event."""
    named = select(events, *_NAMED, where=_IS_OURS)
    return select(named, *_TOLD, where="schedule is not null and slot is not null")


def merged(rows: Frame) -> Frame:
    """Rows of `fired_slots` as one for each slot and job."""
    return grouped(rows, FIRED_SLOTS.key, *_ADDED_UP)


def schedules(jobs: Any) -> Any:
    """The rows of `routed_jobs` that are schedules, as rows of `schedules`; Arrow tables."""
    rows = jobs.filter(pc.field("cron").is_valid() & pc.field("first_slot").is_valid())
    names = {"job_id": "schedule", "first_recorded_at": "added_at"}
    renamed = rows.rename_columns([names.get(name, name) for name in rows.column_names])
    return renamed.select(SCHEDULES.names)


def cron_slots(expected: Frame, fired: Frame) -> Frame:
    """One row for each slot that a schedule should have fired or has fired."""
    both = select(expected, *_EXPECTED).unionByName(select(fired, *_FIRED))
    known = select(grouped(both, SLOT, *_KNOWN), "*", _LATE)
    return select(known, "*", _VERDICT, "to_date(slot) as `date`")


def begins_at(schedule: Mapping[str, Any]) -> dt.datetime:
    """The instant from which on slots of a schedule are expected."""
    first: dt.datetime = schedule["first_slot"]
    added_at: dt.datetime = schedule["added_at"]
    # Clocks differ, but not by a day: an older first slot is a mistake.
    return added_at if first < added_at - dt.timedelta(days=1) else first


class _Expression:
    """The slots of a cron expression in a time zone, day after day."""

    def __init__(self, cron: str, timezone: str | None, until_ms: int) -> None:
        self._cron = cron
        self._timezone = timezone
        self._until = until_ms
        self._coming: int | None = -1

    def of_day(self, start_ms: int) -> list[int]:
        """The slots of the day that starts then, which comes after those asked for before."""
        found: list[int] = []
        if self._coming is not None and self._coming < start_ms:
            self._coming = self._after(start_ms - 1)
        last = min(start_ms + _DAY_MS - 1, self._until)
        while self._coming is not None and self._coming <= last:
            found.append(self._coming)
            self._coming = self._after(self._coming)
        return found

    def _after(self, instant_ms: int) -> int | None:
        try:
            return next_slot(self._cron, self._timezone, instant_ms)
        except InvalidOption:
            # Nobody fires a schedule that cannot be read.
            return None


def expected_slots(
    schedules: Iterable[Mapping[str, Any]], days: Iterable[dt.date], until: dt.datetime
) -> Iterator[tuple[list[dt.date], Any]]:
    """The slots of schedules up to an instant, as many days at once as have not too many slots.

    The days must be in order.
    """
    known = [_Schedule.of(each, until) for each in schedules]
    # Many schedules have the same expression, and to find its slots takes longest.
    last = epoch_ms(until)
    expressions = {each.expression: _Expression(*each.expression, last) for each in known}
    chosen: list[dt.date] = []
    found: list[tuple[str, str, int]] = []
    for day in days:
        chosen.append(day)
        start = epoch_ms(dt.datetime.combine(day, dt.time(), dt.UTC))
        active = [each for each in known if each.first < start + _DAY_MS and each.last >= start]
        slots = {each: expressions[each].of_day(start) for each in {of.expression for of in active}}
        for each in active:
            found += each.among(slots[each.expression], start)
        if len(found) >= AT_ONCE:
            yield chosen, _table(found)
            chosen, found = [], []
    if chosen:
        yield chosen, _table(found)


class _Schedule(NamedTuple):
    """A schedule, and when its slots are expected, in milliseconds."""

    queue: str
    id: str
    expression: tuple[str, str | None]
    due: int
    """Its first slot, as it was added."""
    first: int
    last: int

    @classmethod
    def of(cls, row: Mapping[str, Any], until: dt.datetime) -> "_Schedule":
        """A row of `schedules`."""
        last = min(until, row["ended_at"] or until)
        expression = row["cron"], row["timezone"]
        instants = map(epoch_ms, (row["first_slot"], begins_at(row), last))
        return cls(row["queue"], row["schedule"], expression, *instants)

    def among(self, slots: list[int], start_ms: int) -> Iterator[tuple[str, str, int]]:
        """Job type, schedule and slot, for each of the expression's slots of a day."""
        mine = [each for each in slots if self.first <= each <= self.last and each != self.due]
        # The first one is fired whatever the expression says.
        if max(start_ms, self.first) <= self.due <= self.last:
            mine.append(self.due)
        return ((self.queue, self.id, slot) for slot in mine)


def _table(slots: list[tuple[str, str, int]]) -> Any:
    queues, ids, instants = zip(*slots, strict=True) if slots else ((), (), ())
    return pa.table(
        {
            "queue": pa.array(queues, pa.string()),
            "schedule": pa.array(ids, pa.string()),
            "slot": pa.array(instants, pa.timestamp("ms", tz="UTC")).cast(
                pa.timestamp("us", tz="UTC")
            ),
        }
    )


def epoch_ms(instant: dt.datetime) -> int:
    """An instant as milliseconds since the epoch."""
    return round(instant.timestamp() * 1000)
