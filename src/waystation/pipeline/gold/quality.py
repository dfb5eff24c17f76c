"""Whether each table has the rows that it must have, counted another way."""

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from waystation.core.events import Line
from waystation.pipeline import delta
from waystation.pipeline.errors import TablesDisagree
from waystation.pipeline.gold.ledger import arrival
from waystation.pipeline.history import History, Hours
from waystation.pipeline.silver.items import ENDED
from waystation.pipeline.silver.steps import steps
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
    """One row for each check of what happened in some hours; all counted in one go."""
    counts = reduce(
        DataFrame.unionByName,
        (
            rows.select(
                F.lit(table.name).alias("table"),
                F.lit(what).alias("what"),
                F.lit(side).alias("side"),
                F.col("many").cast("bigint").alias("many"),
            )
            for table, what, wanted, found in _checks(history, hours)
            for side, rows in (("wanted", wanted), ("found", found))
        ),
    )
    sides = {side: F.sum(F.when(F.col("side") == side, F.col("many"))) for side in _SIDES}
    return (
        counts.groupBy("table", "what")
        .agg(*(many.alias(side) for side, many in sides.items()))
        .withColumn("well", F.col("wanted") == F.col("found"))
        .withColumn("checked_at", F.current_timestamp())
        .select(*QUALITY.names)
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


_SIDES = ("wanted", "found")


def _checks(history: History, hours: Hours) -> Iterator[tuple[Table, str, DataFrame, DataFrame]]:
    events = history.events(hours)
    moves = steps(events)
    tried = history.attempts(hours)
    items = history.items(hours.days).where(hours.hold(arrival()))
    taken = _many(moves.where(F.col("event") == "active"))
    entries = events.select("stream", "entry_id")
    yield EVENTS, "every entry of a stream is there once", _many(entries.distinct()), _many(entries)
    yield ATTEMPTS, "as many as were taken", taken, _many(tried)
    born = F.col("added_at").isNotNull()
    yield ITEMS, "as many as were born", _many(moves.where("birth")), _many(items.where(born))
    workers = _of(history, WORKERS, hours)
    yield (
        WORKERS,
        "as many attempts as have a worker",
        _many(tried.where(F.col("worker").isNotNull())),
        _sum(workers, F.col("attempts")),
    )
    hourly = _of(history, HOURLY, hours)
    yield HOURLY, "as many started as were taken", taken, _sum(hourly, F.col("started"))
    yield (
        FAILURES,
        "as many attempts as failed",
        _many(history.attempts().where(F.col("fingerprint").isNotNull())),
        _sum(history.read(FAILURES), F.col("attempts")),
    )
    ledger = _of(history, LEDGER, hours).where(F.col("line") != Line.WAITINGROOM.value)
    yield LEDGER, "as many as there are items", _many(items), _sum(ledger, F.col("acknowledged"))
    ended = items.where(F.col("state").isin(*ENDED) & (F.col("state") != "removed"))
    yield LEDGER, "as many ended as items have", _many(ended), _sum(ledger, F.col("terminal"))
    ready = moves.where(F.col("event") == "waiting").select("line", "queue", "at")
    active = ready.union(tried.select("line", "queue", "started_at"))
    busy = active.select("line", "queue", F.date_trunc("hour", "at")).distinct()
    rows = _many(_of(history, CAPACITY, hours))
    yield CAPACITY, "a row for each hour with work", _many(busy), rows


def _of(history: History, table: Table, hours: Hours) -> DataFrame:
    return history.read(table).where(hours.hold(F.col("hour")))


def _many(rows: DataFrame) -> DataFrame:
    return rows.agg(F.count("*").alias("many"))


def _sum(rows: DataFrame, column: Column) -> DataFrame:
    return rows.agg(F.coalesce(F.sum(column), F.lit(0)).alias("many"))
