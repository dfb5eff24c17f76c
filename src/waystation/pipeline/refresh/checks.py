"""Consistency checks: counts in each table against counts computed from other tables."""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from waystation.core.errors import TablesDisagree
from waystation.core.events import Line
from waystation.pipeline.gold.ledger import arrival
from waystation.pipeline.history import History
from waystation.pipeline.hours import Hours
from waystation.pipeline.silver.moves import ENDED
from waystation.pipeline.silver.steps import is_claim, steps
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import pc
from waystation.pipeline.tables import (
    ATTEMPTS,
    CAPACITY,
    EVENTS,
    FAILURES,
    HOURLY,
    ITEMS,
    LEDGER,
    QUALITY,
    WORKERS,
    Table,
)


class Check(NamedTuple):
    """One count in a table and its expected value."""

    table: str
    what: str
    wanted: int
    found: int

    @property
    def passed(self) -> bool:
        """Whether both are equal."""
        return self.wanted == self.found

    def __str__(self) -> str:
        """The check in one line."""
        return f"{self.table}: {self.what}: wanted {self.wanted:,}, found {self.found:,}"


def quality(history: History, hours: Hours) -> DataFrame:
    """One row for each check of what happened in some hours."""
    now = dt.datetime.now(dt.UTC)
    checks = _checks(_expected(history, hours), _found(history, hours))
    return history.spark.createDataFrame(
        [(*check, check.passed, now) for check in checks], QUALITY.schema
    )


def last_checks(root: str) -> list[Check]:
    """The checks of the last refresh of the history at `root`."""
    rows = delta.read_arrow(root, QUALITY, Check._fields)
    return sorted(Check(**row) for row in rows.to_pylist())


def require_consistent(failed: Sequence[str]) -> None:
    """Raise `TablesDisagree` when checks failed."""
    if failed:
        raise TablesDisagree(
            f"{'; '.join(failed)}. No event is lost: "
            "`waystation pipeline rebuild` builds the tables again from the events"
        )


def _checks(counted: Mapping[str, int], answered: Mapping[str, int]) -> Iterator[Check]:
    """All checks, from the expected counts and the counts in gold tables."""

    def check(table: Table, what: str, wanted: str, found: int) -> Check:
        return Check(table.name, what, counted[wanted], found)

    yield check(EVENTS, "every stream entry once", "entries", counted["events"])
    yield check(ATTEMPTS, "one for each claim", "taken", counted["attempts"])
    yield check(ITEMS, "one for each job added", "births", counted["born"])
    yield check(WORKERS, "attempts with a worker", "by_worker", answered["by_worker"])
    yield check(HOURLY, "attempts started", "taken", answered["started"])
    yield check(FAILURES, "attempts that failed", "failed", answered["failed"])
    yield check(LEDGER, "jobs added", "items", answered["acknowledged"])
    yield check(LEDGER, "jobs ended", "ended", answered["terminal"])
    yield check(CAPACITY, "one row for each hour with work", "busy", answered["busy"])


def _expected(history: History, hours: Hours) -> dict[str, int]:
    """Counts in events, attempts and items, all in one Spark job."""
    events = history.events(hours)
    moves = steps(events)
    tried = history.attempts(hours)
    items = history.items(hours.days).where(hours.contain(arrival()))
    has_ended = F.col("state").isin(*ENDED) & (F.col("state") != "removed")
    ready = moves.where(F.col("event") == "waiting").select("line", "queue", "at")
    work = ready.union(tried.select("line", "queue", "started_at"))
    busy = work.select("line", "queue", F.date_trunc("hour", "at").alias("hour")).distinct()
    counts = (
        _many(events, events=F.count("*"), entries=F.count_distinct("stream", "entry_id")),
        _many(moves, taken=F.count_if(is_claim()), births=F.count_if("birth")),
        _many(tried, attempts=F.count("*"), by_worker=F.count("worker")),
        _many(history.attempts(), failed=F.count("fingerprint")),
        _many(items, items=F.count("*"), born=F.count("added_at"), ended=F.count_if(has_ended)),
        _many(busy, busy=F.count("*")),
    )
    return {row["what"]: row["many"] for row in reduce(DataFrame.union, counts).collect()}


def _many(rows: DataFrame, **counts: Column) -> DataFrame:
    """Some counts of the same rows, by name."""
    named = [part for name in counts for part in (F.lit(name), F.col(name))]
    return rows.agg(*(count.alias(name) for name, count in counts.items())).select(
        F.explode(F.create_map(*named)).alias("what", "many")
    )


def _found(history: History, hours: Hours) -> dict[str, int]:
    """Counts in the gold tables for the same hours; they are small and read with Arrow."""
    mine = hours.arrow_filter(pc.field("hour"))
    work = mine & (pc.field("line") != Line.WAITINGROOM.value)

    def total(table: Table, column: str, where: Any = None) -> int:
        return pc.sum(delta.read_arrow(history.root, table, (column,), where)[column]).as_py() or 0

    return {
        "by_worker": total(WORKERS, "attempts", mine),
        "started": total(HOURLY, "started", mine),
        "failed": total(FAILURES, "attempts"),
        "acknowledged": total(LEDGER, "acknowledged", work),
        "terminal": total(LEDGER, "terminal", work),
        "busy": delta.read_arrow(history.root, CAPACITY, ("hour",), mine).num_rows,
    }
