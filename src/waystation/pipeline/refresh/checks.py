"""Consistency checks: counts in each table against counts computed from other tables."""

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any

from waystation.core.events import Line
from waystation.pipeline.gold.ledger import ARRIVAL
from waystation.pipeline.hours import Hours
from waystation.pipeline.products.facts import HistoryFrames
from waystation.pipeline.refresh.quality import Check
from waystation.pipeline.silver.items import HAS_ENDED
from waystation.pipeline.silver.steps import IS_CLAIM, steps
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import pa, pc
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.storage.sql import query, to_arrow
from waystation.pipeline.tables import (
    ATTEMPTS,
    CAPACITY,
    EVENTS,
    FAILED_ITEMS,
    FAILURE_DAYS,
    FAILURES,
    HOURLY,
    ITEMS,
    LEDGER,
    QUALITY,
    WORKERS,
    Table,
)


def quality(frames: HistoryFrames, root: str, hours: Hours) -> Any:
    """One row for each check of what happened in some hours, as an Arrow table."""
    now = dt.datetime.now(dt.UTC)
    checks = _checks(_expected(frames, hours), _found(root, hours))
    rows = [{**check._asdict(), "well": check.passed, "checked_at": now} for check in checks]
    return pa.Table.from_pylist(rows, schema=schema_of(QUALITY.schema))


def _checks(counted: Mapping[str, int], answered: Mapping[str, int]) -> Iterator[Check]:
    """All checks, from the expected counts and the counts in gold tables."""

    def check(table: Table, what: str, wanted: str, found: int) -> Check:
        return Check(table.name, what, counted[wanted], found)

    yield check(EVENTS, "every stream entry once", "entries", counted["events"])
    yield check(ATTEMPTS, "one for each claim", "taken", counted["attempts"])
    yield check(ITEMS, "one for each job added", "births", counted["born"])
    yield check(WORKERS, "attempts with a worker", "by_worker", answered["by_worker"])
    yield check(HOURLY, "attempts started", "taken", answered["started"])
    yield check(FAILED_ITEMS, "jobs that failed", "had_failed", counted["known_failed"])
    yield check(FAILURE_DAYS, "attempts that failed", "failed", answered["failed_by_day"])
    failed = counted["failing"] + answered["failed_ever"]
    yield Check(FAILURES.name, "attempts that failed", failed, answered["failed"])
    yield check(LEDGER, "jobs added", "items", answered["acknowledged"])
    yield check(LEDGER, "jobs ended", "ended", answered["terminal"])
    yield check(CAPACITY, "one row for each hour with work", "busy", answered["busy"])


_COUNTED = f"""
with counts as (
    select count(*) as events, count(distinct concat(stream, ' ', entry_id)) as entries
    from {{events}}
), moves as (
    select count_if({IS_CLAIM}) as taken, count_if(birth) as births from {{steps}}
), tried as (
    select count(*) as attempts, count(worker) as by_worker from {{attempts}}
), failing as (
    select coalesce(sum(failed), 0) as failing from {{failing}}
), failed as (
    select coalesce(sum(failed), 0) as failed from {{failed_items}}
), had_failed as (
    select count(*) as had_failed from {{items}} where {HAS_ENDED} and fingerprint is not null
), known_failed as (
    select count(*) as known_failed
    from (select distinct line, queue, subject, last_told_at, attempts from {{failed_items}})
), arrived as (
    select count(*) as items, count(added_at) as born,
           count_if({HAS_ENDED} and state <> 'removed') as ended
    from {{items}}
    where {ARRIVAL} in (select start from {{hours}})
), work as (
    select line, queue, date_trunc('hour', `at`) as `hour` from {{steps}} where event = 'waiting'
    union
    select line, queue, date_trunc('hour', started_at) as `hour` from {{attempts}}
), busy as (
    select count(*) as busy from work
)
select * from counts cross join moves cross join tried cross join failing cross join failed
              cross join arrived cross join had_failed cross join known_failed cross join busy
"""


_CHECKED = ("added_at", "date", "state", "fingerprint")
"""Columns of an item that are looked at."""
_FAILED = ("line", "queue", "subject", "last_told_at", "attempts", "failed")
"""The same of an item that failed."""


def _expected(frames: HistoryFrames, hours: Hours) -> dict[str, int]:
    """Counts in events, attempts and items, all in one query."""
    events = frames.events(hours)
    starts = pa.array(hours.starts, pa.timestamp("us", tz="UTC"))
    counted = query(
        _COUNTED,
        events=events,
        steps=steps(events),
        attempts=frames.attempts(hours),
        failing=frames.failing(),
        items=frames.items(hours.dates, _CHECKED),
        failed_items=frames.read(FAILED_ITEMS, days=hours.dates, columns=_FAILED),
        hours=pa.table({"start": starts}),
    )
    return {name: int(many) for name, many in to_arrow(counted).to_pylist()[0].items()}


def _found(root: str, hours: Hours) -> dict[str, int]:
    """Counts in the gold tables for the same hours; they are small and read with Arrow."""
    mine = hours.arrow_filter(pc.field("hour"))
    work = mine & (pc.field("line") != Line.WAITINGROOM.value)
    days = pa.array(hours.dates, pa.date32())

    def total(table: Table, column: str, where: Any = None) -> int:
        return pc.sum(delta.read_arrow(root, table, (column,), where)[column]).as_py() or 0

    return {
        "by_worker": total(WORKERS, "attempts", mine),
        "started": total(HOURLY, "started", mine),
        "failed": total(FAILURES, "attempts"),
        "failed_ever": total(FAILURE_DAYS, "attempts"),
        "failed_by_day": total(FAILURE_DAYS, "attempts", pc.field("day").isin(days)),
        "acknowledged": total(LEDGER, "acknowledged", work),
        "terminal": total(LEDGER, "terminal", work),
        "busy": delta.read_arrow(root, CAPACITY, ("hour",), mine).num_rows,
    }
