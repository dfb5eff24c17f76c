"""Whether each table has the rows that it must have, counted another way."""

from collections.abc import Iterator
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from waystation.pipeline.history import History
from waystation.pipeline.silver.items import ENDED
from waystation.pipeline.silver.steps import WHO, lived, steps
from waystation.pipeline.tables import (
    ATTEMPTS,
    CAPACITY,
    EVENTS,
    FAILURES,
    HOURLY,
    ITEMS,
    LEDGER,
    WORKERS,
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


def checked(history: History) -> list[Check]:
    """Count every table twice."""
    return list(_checks(history))


def _checks(history: History) -> Iterator[Check]:
    moves = steps(history.read(EVENTS))
    tried, items = history.attempts(), history.items()
    taken = moves.where(F.col("event") == "active").count()
    events = history.read(EVENTS)
    yield Check(
        EVENTS.name,
        "every entry of a stream is there once",
        events.select("stream", "entry_id").distinct().count(),
        events.count(),
    )
    yield Check(ATTEMPTS.name, "as many as were taken", taken, tried.count())
    lives = lived(moves).select(*WHO, "life").distinct().count()
    yield Check(ITEMS.name, "as many as lives began", lives, items.count())
    told = tried.where(F.col("worker").isNotNull()).count()
    yield Check(
        WORKERS.name,
        "as many attempts as have a worker",
        told,
        _sum(history.read(WORKERS), "attempts"),
    )
    yield Check(
        HOURLY.name, "as many started as were taken", taken, _sum(history.read(HOURLY), "started")
    )
    failed = tried.where(F.col("fingerprint").isNotNull()).count()
    yield Check(
        FAILURES.name,
        "as many attempts as failed",
        failed,
        _sum(history.read(FAILURES), "attempts"),
    )
    yield Check(
        LEDGER.name,
        "as many acknowledged as there are items",
        lives,
        _sum(history.read(LEDGER), "acknowledged"),
    )
    ended = items.where(F.col("state").isin(*ENDED)).count()
    yield Check(
        LEDGER.name, "as many ended as items have", ended, _sum(history.read(LEDGER), "terminal")
    )
    ready = moves.where(F.col("event") == "waiting").select("line", "queue", "at")
    active = ready.union(tried.select("line", "queue", "started_at"))
    hours = active.select("line", "queue", F.date_trunc("hour", "at")).distinct().count()
    kept = history.read(CAPACITY).count()
    yield Check(CAPACITY.name, "a row for each hour with work", hours, kept)


def _sum(rows: DataFrame, column: str) -> int:
    return int(rows.agg(F.coalesce(F.sum(column), F.lit(0))).collect()[0][0])
