"""Consistency checks: counts in each table against counts computed from other tables."""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from waystation.core.errors import Overtaken
from waystation.core.events import Product
from waystation.pipeline.gold.cells import ARRIVED, CELLS, COUNTS, FAILURE, FAILURE_DAY, HOUR, Kind
from waystation.pipeline.gold.files import files_by, names_in, span_of
from waystation.pipeline.history import History
from waystation.pipeline.refresh.fold import folded_version, require_folded
from waystation.pipeline.refresh.quality import Check
from waystation.pipeline.refresh.stale_hours import Hours
from waystation.pipeline.silver.moves import OPEN_ATTEMPTS, OPEN_FAILURES, OPEN_ITEMS
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import pa, pc
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.storage.task_files import replace
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


def refresh_quality(history: History, hours: Hours) -> None:
    """Check what happened on the days of some hours against the sums, without reading silver."""
    root, dates, before = history.root, hours.dates, folded_version(history)
    rows = _rows(_checks(_summed(root, dates), _found_on(root, dates)))
    try:
        require_folded(history, before)
    except Overtaken:
        # Another driver folds, and checks it.
        return
    replace(history.spark.createDataFrame(rows), root, QUALITY)


def _rows(checks: Iterator[Check]) -> Any:
    now = dt.datetime.now(dt.UTC)
    rows = [{**check._asdict(), "well": check.passed, "checked_at": now} for check in checks]
    return pa.Table.from_pylist(rows, schema=schema_of(QUALITY.schema))


def _summed(root: str, dates: Sequence[dt.date]) -> dict[str, int]:
    """Counts by the cells and by the logs of silver, of these days."""
    hour = _on(root, CELLS, "at", dates, COUNTS, HOUR)
    ready, started = (pc.field(HOUR.column(name)) for name in ("ready", "started"))
    arrived = _on(root, CELLS, "at", dates, ("product", *COUNTS), ARRIVED)
    arrived = arrived.filter(pc.field("product") != Product.WAITINGROOM.value)
    by_day = _on(root, CELLS, "at", dates, COUNTS, FAILURE_DAY)
    names = [each.path for each in files_by(CELLS, root, None, FAILURE.name)]
    ever = delta.read_files(CELLS.path(root), CELLS, names, columns=COUNTS)
    events = delta.count(EVENTS.path(root), days=dates)
    return {
        "events": events,
        "entries": events - _total(hour, HOUR, "doubled"),
        "taken": _total(hour, HOUR, "started"),
        "attempts": _kept(root, ATTEMPTS, OPEN_ATTEMPTS, dates, "started_at"),
        "births": _total(hour, HOUR, "added"),
        "born": _kept(root, ITEMS, OPEN_ITEMS, dates, "added_at"),
        "by_worker": _kept(root, ATTEMPTS, OPEN_ATTEMPTS, dates, "worker"),
        "had_failed": _total(ever, FAILURE, "jobs"),
        "known_failed": sum(delta.count(each.path(root)) for each in (FAILED_ITEMS, OPEN_FAILURES)),
        "failed": _total(by_day, FAILURE_DAY, "attempts"),
        "failing": _total(ever, FAILURE, "attempts"),
        "items": _kept(root, ITEMS, OPEN_ITEMS, dates, "date"),
        "ended": _total(arrived, ARRIVED, "terminal"),
        "busy": hour.filter((ready > 0) | (started > 0)).num_rows,
    }


def _found_on(root: str, dates: Sequence[dt.date]) -> dict[str, int]:
    """The same counts in the tables of gold."""

    def total(table: Table, column: str, by: str = "hour") -> int:
        return pc.sum(_on(root, table, by, dates, (column,))[column]).as_py() or 0

    accounts = _on(root, LEDGER, "hour", dates, ("product", "acknowledged", "terminal"))
    accounts = accounts.filter(pc.field("product") != Product.WAITINGROOM.value)
    known = delta.read_arrow(root, FAILURES, ("attempts",))
    return {
        "by_worker": total(WORKERS, "attempts"),
        "started": total(HOURLY, "started"),
        "failed": pc.sum(known["attempts"]).as_py() or 0,
        "failed_by_day": total(FAILURE_DAYS, "attempts", "day"),
        "acknowledged": pc.sum(accounts["acknowledged"]).as_py() or 0,
        "terminal": pc.sum(accounts["terminal"]).as_py() or 0,
        "busy": _on(root, CAPACITY, "hour", dates, ("product",)).num_rows,
    }


def _on(
    root: str,
    table: Table,
    by: str,
    dates: Sequence[dt.date],
    columns: Sequence[str],
    kind: Kind | None = None,
) -> Any:
    """Some columns of the rows of these days."""
    spans = [span_of(dt.datetime.combine(day, dt.time(), dt.UTC), "day") for day in dates]
    names = names_in(table, root, by, spans, None if kind is None else kind.name)
    rows = delta.read_files(table.path(root), table, names, columns=(*columns, by))
    return rows.filter(pc.is_in(rows[by].cast(pa.date32()), pa.array(dates, pa.date32())))


def _total(cells: Any, kind: Kind, name: str) -> int:
    return pc.sum(cells[kind.column(name)]).as_py() or 0


def _kept(root: str, table: Table, unfinished: Table, dates: Sequence[dt.date], column: str) -> int:
    """Rows of a table and of its open work with a value in a column, of these days."""
    known = delta.count(table.path(root), days=dates, of=column)
    where = pc.field("date").isin(pa.array(dates, pa.date32()))
    rows = delta.read_arrow(root, unfinished, (column,), where, by=("date",))
    return known + rows.num_rows - rows[column].null_count


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
    yield check(FAILURES, "attempts that failed", "failing", answered["failed"])
    yield check(LEDGER, "jobs added", "items", answered["acknowledged"])
    yield check(LEDGER, "jobs ended", "ended", answered["terminal"])
    yield check(CAPACITY, "one row for each hour with work", "busy", answered["busy"])
