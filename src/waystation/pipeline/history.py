"""History: the tables kept in one directory, open work included."""

import datetime as dt
from collections.abc import Sequence
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from waystation.pipeline.hours import Hours
from waystation.pipeline.products import product_tables
from waystation.pipeline.silver import attempts as attempts_fold
from waystation.pipeline.silver import items as items_fold
from waystation.pipeline.silver.moves import STEPS
from waystation.pipeline.silver.steps import with_lives
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.places import checked_root
from waystation.pipeline.tables import ATTEMPTS, EVENTS, ITEMS, Table, every


class History:
    """The tables kept in the directory `root`, read with a Spark session."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.spark = spark
        self.root = checked_root(root)

    def read(self, table: Table, *, days: Sequence[dt.date] | None = None) -> DataFrame:
        """One table as it is stored, or only some days of it; empty when it does not exist yet."""
        return delta.read(self.spark, self.root, table, days=days)

    def attempts(self, hours: Hours | None = None) -> DataFrame:
        """All attempts, running ones included; with `hours`, those started in these hours."""
        kept = self.read(ATTEMPTS, days=None if hours is None else hours.days)
        running = attempts_fold.rows(self._running)
        if hours is not None:
            kept = kept.where(hours.contain(F.col("started_at")))
            running = running.where(hours.contain(F.col("started_at")))
        return kept.unionByName(running)

    def items(self, days: Sequence[dt.date] | None = None) -> DataFrame:
        """All jobs and files, open ones included; with `days`, those added on these days."""
        kept = self.read(ITEMS, days=days)
        unfinished = self._open
        if days is not None:
            unfinished = unfinished.where(F.col("date").isin(list(days)))
        return kept.unionByName(unfinished)

    def events(self, hours: Hours | None = None) -> DataFrame:
        """All events; with `hours`, those that happened in these hours."""
        if hours is None:
            return self.read(EVENTS)
        return self.read(EVENTS, days=hours.days).where(hours.contain(F.col("at")))

    def create_views(self) -> list[str]:
        """Make every table a temporary view, so that SQL can name it; returns the names."""
        views = {table.name: self.read(table) for table in (*every(), *product_tables())}
        views |= {"attempts": self.attempts(), "items": self.items()}
        for name, rows in views.items():
            rows.createOrReplaceTempView(name)
        return sorted(views)

    @cached_property
    def _running(self) -> DataFrame:
        """The attempts of open work."""
        steps = self.read(STEPS)
        return self._computed_once(attempts_fold.attempts(with_lives(steps)), of=steps)

    @cached_property
    def _open(self) -> DataFrame:
        """The jobs and files that have not ended."""
        steps = self.read(STEPS)
        rows = items_fold.rows(items_fold.items(with_lives(steps), self._running))
        return self._computed_once(rows, of=steps)

    def _computed_once(self, rows: DataFrame, *, of: DataFrame) -> DataFrame:
        """Rows that many queries start from: computed once, and planned once."""
        return rows.localCheckpoint() if of.inputFiles() else self.spark.emptyDataFrame(rows.schema)


def utc(instant: dt.datetime) -> dt.datetime:
    """An instant from Spark, in UTC whatever this machine's time zone is."""
    return instant.astimezone(dt.UTC)
