"""Slots of cron schedules, brought up to date day by day.

A day is computed again when a slot of it was fired or skipped, when a schedule of that time came,
changed or ended, or when time has passed in it. The table `schedules` is written last, and its
commit notes what has been looked at: a refresh that is cut short is done again.
"""

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from waystation.core.durations import instant
from waystation.core.events import Product
from waystation.pipeline.history import History
from waystation.pipeline.products.cron_slots import (
    CRON_SLOTS,
    FIRED_SLOTS,
    SCHEDULES,
    begins_at,
    cron_slots,
    epoch_ms,
    expected_slots,
    schedules,
)
from waystation.pipeline.products.routing import ROUTED_JOBS
from waystation.pipeline.storage import delta, rewriting, table_log
from waystation.pipeline.storage.arrow import pa, pc
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.rewriting import Where
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.storage.sessions import sized
from waystation.pipeline.storage.task_files import replace
from waystation.pipeline.tables import EVENTS

UNTIL = "until"
"""What the instant is noted as up to which slots are expected, in milliseconds."""
_NAMES = (ROUTED_JOBS.name, FIRED_SLOTS.name, UNTIL)
_COLUMNS = ("queue", "job_id", "cron", "timezone", "first_recorded_at", "first_slot", "ended_at")

Schedules: TypeAlias = Mapping[tuple[Any, ...], Mapping[str, Any]]
"""Rows of `schedules`, by their key."""


class SourceVersions(NamedTuple):
    """What the slots were computed from."""

    jobs: int | None = None
    """Version of `routed_jobs`."""
    slots: int | None = None
    """Version of `fired_slots`."""
    until_ms: int | None = None
    """The last event of routing, in milliseconds."""


def refresh_slots(history: History, *, everything: bool = False) -> None:
    """Compute the days again that may have changed, or all days."""
    root = history.root
    now = _present(root)
    before = SourceVersions() if everything else _noted(root)
    if now.jobs is None or now == before:
        return
    until = instant(now.until_ms or 0)
    known = _by_key(delta.read_arrow(root, SCHEDULES, SCHEDULES.names))
    present = _present_schedules(root, known, before, now)
    days = sorted(_stale_days(root, known, present, before, now))
    for some, expected in expected_slots(present.values(), days, until):
        if expected.num_rows or delta.count(FIRED_SLOTS.path(root), days=some) or _has_slots(root):
            _replace_slots(history, expected, some)
    if before.jobs is None:
        _drop_other_days(history, days)
    rows = pa.Table.from_pylist(list(present.values()), schema=schema_of(SCHEDULES.schema))
    _replace_schedules(history, rows, list(_notes(now)))


def _replace_slots(history: History, expected: Any, days: list[dt.date]) -> None:
    """Write the slots of these days anew."""
    root = history.root
    with sized(history.spark, expected.num_rows) as spark:
        rows = cron_slots(spark.createDataFrame(expected), history.read(FIRED_SLOTS, days=days))
        replace(rows, root, CRON_SLOTS, days=days)


def _replace_schedules(history: History, rows: Any, seen: list[BatchId]) -> None:
    replace(history.spark.createDataFrame(rows), history.root, SCHEDULES, batches=seen)


def _present(root: str) -> SourceVersions:
    last = delta.greatest(
        EVENTS.path(root), "recorded_at", among=("product", Product.ROUTING.value)
    )
    return SourceVersions(
        table_log.version(ROUTED_JOBS.path(root)),
        table_log.version(FIRED_SLOTS.path(root)),
        None if last is None else epoch_ms(last),
    )


def _noted(root: str) -> SourceVersions:
    path = SCHEDULES.path(root)
    return SourceVersions(*(delta.last_batch(path, name) for name in _NAMES))


def _notes(seen: SourceVersions) -> Iterator[BatchId]:
    for name, value in zip(_NAMES, seen, strict=True):
        if value is not None:
            yield BatchId(name, value)


def _present_schedules(
    root: str, known: Schedules, before: SourceVersions, now: SourceVersions
) -> Schedules:
    """The schedules that are known, with those of the days that have changed as they are now."""
    days = table_log.changed_days(ROUTED_JOBS.path(root), after=before.jobs, until=now.jobs or 0)
    found = delta.read_arrow(
        root, ROUTED_JOBS, _COLUMNS, pc.field("cron").is_valid(), by=("cron",), days=days
    )
    fresh = _by_key(schedules(found))
    if days is None:
        return fresh
    others = {key: row for key, row in known.items() if row["added_at"].date() not in days}
    return {**others, **fresh}


def _by_key(rows: Any) -> Schedules:
    return {tuple(row[name] for name in SCHEDULES.key): row for row in rows.to_pylist()}


def _stale_days(
    root: str, known: Schedules, present: Schedules, before: SourceVersions, now: SourceVersions
) -> set[dt.date]:
    """The days of slots that may be other ones than those that are stored."""
    last = instant(now.until_ms or 0)
    starts = list(_changes(known, present))
    if before.until_ms is None:
        starts = [begins_at(each) for each in present.values()]
    else:
        starts.append(instant(before.until_ms))
    days: set[dt.date] = set()
    if starts:
        first = min(starts).date()
        days |= {first + dt.timedelta(days=n) for n in range((last.date() - first).days + 1)}
    path = FIRED_SLOTS.path(root)
    fired = table_log.changed_days(path, after=before.slots, until=now.slots or 0)
    days |= set(delta.days_of(path) if fired is None else fired)
    # The events of days before may have been deleted: nobody knows whether their slots were fired.
    kept = (*delta.days_of(EVENTS.path(root)), *delta.days_of(CRON_SLOTS.path(root)))
    oldest = min(kept, default=last.date())
    return {day for day in days if day >= oldest}


def _changes(known: Schedules, present: Schedules) -> Iterator[dt.datetime]:
    """The first instant of each change of a schedule."""
    for key in known.keys() | present.keys():
        ways = [of[key] for of in (known, present) if key in of]
        if len(ways) == 1:
            yield begins_at(ways[0])
        elif ways[0] != ways[1]:
            is_same = {**ways[0], "ended_at": None} == {**ways[1], "ended_at": None}
            names = ("ended_at",) if is_same else ("first_slot", "ended_at")
            yield min(each[name] for each in ways for name in names if each[name] is not None)


def _drop_other_days(history: History, days: list[dt.date]) -> None:
    """Delete the slots of other days."""
    others = Where(~pc.field("date").isin(pa.array(days, pa.date32())), ("date",))
    rewriting.delete(history, {CRON_SLOTS: others})


def _has_slots(root: str) -> bool:
    return table_log.version(CRON_SLOTS.path(root)) is not None
