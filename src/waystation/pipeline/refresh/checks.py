"""Whether each table has the rows that it must have, counted another way."""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from waystation.core.errors import TablesDisagree
from waystation.core.events import Line
from waystation.pipeline.gold.ledger import arrival
from waystation.pipeline.history import History, Hours
from waystation.pipeline.silver.items import ENDED
from waystation.pipeline.silver.steps import steps, takes
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
    """One count and the one it must equal."""

    table: str
    what: str
    wanted: int
    found: int

    @property
    def well(self) -> bool:
        """Whether the two are equal."""
        return self.wanted == self.found

    def __str__(self) -> str:
        """The check in a line."""
        return f"{self.table}: {self.what}: wanted {self.wanted:,}, found {self.found:,}"


def quality(history: History, hours: Hours) -> DataFrame:
    """One row for each check of what happened in some hours."""
    now = dt.datetime.now(dt.UTC)
    checks = _checks(_counted(history, hours), _answered(history, hours))
    return history.spark.createDataFrame(
        [(*check, check.well, now) for check in checks], QUALITY.schema
    )


def checked(history: History) -> list[Check]:
    """What the last round of answers was checked for."""
    rows = delta.read_here(history.root, QUALITY, Check._fields)
    return sorted(Check(**row) for row in rows.to_pylist())


def require_none(ill: Sequence[str]) -> None:
    """Refuse to go on as if all were well when checks failed."""
    if ill:
        raise TablesDisagree(
            f"{'; '.join(ill)}. Nothing that was told is lost: "
            "`waystation pipeline rebuild` makes the tables anew from it"
        )


def _checks(counted: Mapping[str, int], answered: Mapping[str, int]) -> Iterator[Check]:
    """What the tables must have by what was told, beside what they have."""

    def check(table: Table, what: str, wanted: str, found: int) -> Check:
        return Check(table.name, what, counted[wanted], found)

    yield check(EVENTS, "every entry of a stream is there once", "entries", counted["events"])
    yield check(ATTEMPTS, "as many as were taken", "taken", counted["attempts"])
    yield check(ITEMS, "as many as were born", "births", counted["born"])
    yield check(WORKERS, "as many attempts as have a worker", "by_worker", answered["by_worker"])
    yield check(HOURLY, "as many started as were taken", "taken", answered["started"])
    yield check(FAILURES, "as many attempts as failed", "failed", answered["failed"])
    yield check(LEDGER, "as many as there are items", "items", answered["acknowledged"])
    yield check(LEDGER, "as many ended as items have", "ended", answered["terminal"])
    yield check(CAPACITY, "a row for each hour with work", "busy", answered["busy"])


def _counted(history: History, hours: Hours) -> dict[str, int]:
    """What events, attempts and items say; all counted in one go, and each of them read once."""
    events = history.events(hours)
    moves = steps(events)
    tried = history.attempts(hours)
    items = history.items(hours.days).where(hours.hold(arrival()))
    has_ended = F.col("state").isin(*ENDED) & (F.col("state") != "removed")
    ready = moves.where(F.col("event") == "waiting").select("line", "queue", "at")
    work = ready.union(tried.select("line", "queue", "started_at"))
    busy = work.select("line", "queue", F.date_trunc("hour", "at").alias("hour")).distinct()
    counts = (
        _many(events, events=F.count("*"), entries=F.count_distinct("stream", "entry_id")),
        _many(moves, taken=F.count_if(takes()), births=F.count_if("birth")),
        _many(tried, attempts=F.count("*"), by_worker=F.count("worker")),
        _many(history.attempts(), failed=F.count("fingerprint")),
        _many(items, items=F.count("*"), born=F.count("added_at"), ended=F.count_if(has_ended)),
        _many(busy, busy=F.count("*")),
    )
    return {row["what"]: row["many"] for row in reduce(DataFrame.union, counts).collect()}


def _many(rows: DataFrame, **counts: Column) -> DataFrame:
    """Some counts of the same rows, each by its name."""
    named = [part for name in counts for part in (F.lit(name), F.col(name))]
    return rows.agg(*(count.alias(name) for name, count in counts.items())).select(
        F.explode(F.create_map(*named)).alias("what", "many")
    )


def _answered(history: History, hours: Hours) -> dict[str, int]:
    """What the answers hold of the same hours: they are small, and are read here."""
    mine = hours.among(pc.field("hour"))
    work = mine & (pc.field("line") != Line.WAITINGROOM.value)

    def total(table: Table, column: str, where: Any = None) -> int:
        return pc.sum(delta.read_here(history.root, table, (column,), where)[column]).as_py() or 0

    return {
        "by_worker": total(WORKERS, "attempts", mine),
        "started": total(HOURLY, "started", mine),
        "failed": total(FAILURES, "attempts"),
        "acknowledged": total(LEDGER, "acknowledged", work),
        "terminal": total(LEDGER, "terminal", work),
        "busy": delta.read_here(history.root, CAPACITY, ("hour",), mine).num_rows,
    }
