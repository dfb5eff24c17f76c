"""The history at one place: its tables, with what has not ended yet beside what has."""

import datetime as dt
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from waystation.core.errors import InvalidOption
from waystation.pipeline.products import tables_of_all_lines
from waystation.pipeline.silver import attempts as attempts_fold
from waystation.pipeline.silver import items as items_fold
from waystation.pipeline.silver.steps import STEPS, lived
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import pa
from waystation.pipeline.tables import ATTEMPTS, EVENTS, ITEMS, Table, every

MOST_LISTED = 100


class Hours(msgspec.Struct, frozen=True):
    """Hours that something happened in, each by its beginning in UTC."""

    starts: tuple[dt.datetime, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.starts)

    @property
    def days(self) -> list[dt.date]:
        """The days they lie in, and those beside, where clocks may have put something."""
        day = dt.timedelta(days=1)
        return sorted({hour.date() + step * day for hour in self.starts for step in (-1, 0, 1)})

    def hold(self, instant: Column) -> Column:
        """Whether an instant lies in one of them."""
        hour = F.date_trunc("hour", instant)
        if len(self.starts) <= MOST_LISTED:
            return hour.isin([F.lit(each) for each in self.starts])
        return hour.between(F.lit(min(self.starts)), F.lit(max(self.starts)))

    def among(self, instant: Any) -> Any:
        """The same question to Arrow, about instants that begin an hour."""
        if len(self.starts) <= MOST_LISTED:
            return instant.isin(pa.array(self.starts, pa.timestamp("us", tz="UTC")))
        return (instant >= min(self.starts)) & (instant <= max(self.starts))

    def predicate(self, column: str) -> str:
        """The same question to delta-rs."""
        if len(self.starts) <= MOST_LISTED:
            return " OR ".join(f"{column} = '{each.isoformat()}'" for each in self.starts)
        first, last = min(self.starts), max(self.starts)
        return f"{column} >= '{first.isoformat()}' AND {column} <= '{last.isoformat()}'"


class History:
    """Everything that is kept at one place."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.spark = spark
        self.root = directory(root)

    def read(self, table: Table, *, days: Sequence[dt.date] | None = None) -> DataFrame:
        """One table as it lies there, or only some days of it; empty when it does not exist yet."""
        return delta.read(self.spark, self.root, table, days=days)

    def attempts(self, hours: Hours | None = None) -> DataFrame:
        """Every attempt, those of open work included; or only those taken in some hours."""
        kept = self.read(ATTEMPTS, days=None if hours is None else hours.days)
        running = attempts_fold.rows(self._running)
        if hours is not None:
            kept = kept.where(hours.hold(F.col("started_at")))
            running = running.where(hours.hold(F.col("started_at")))
        return kept.unionByName(running)

    def items(self, days: Sequence[dt.date] | None = None) -> DataFrame:
        """Every item, the open ones included; or only those that came to be on some days."""
        kept = self.read(ITEMS, days=days)
        waiting = self._waiting
        if days is not None:
            waiting = waiting.where(F.col("date").isin(list(days)))
        return kept.unionByName(waiting)

    def events(self, hours: Hours | None = None) -> DataFrame:
        """Everything that was told; or only what happened in some hours."""
        if hours is None:
            return self.read(EVENTS)
        return self.read(EVENTS, days=hours.days).where(hours.hold(F.col("at")))

    def show_views(self) -> list[str]:
        """Make every table known to SQL by its name."""
        views = {table.name: self.read(table) for table in (*every(), *tables_of_all_lines())}
        views |= {"attempts": self.attempts(), "items": self.items()}
        for name, rows in views.items():
            rows.createOrReplaceTempView(name)
        return sorted(views)

    @cached_property
    def _running(self) -> DataFrame:
        """The attempts of what has not ended."""
        steps = self.read(STEPS)
        return self._worked_out(attempts_fold.attempts(lived(steps)), of=steps)

    @cached_property
    def _waiting(self) -> DataFrame:
        """What has not ended."""
        steps = self.read(STEPS)
        rows = items_fold.rows(items_fold.items(lived(steps), self._running))
        return self._worked_out(rows, of=steps)

    def _worked_out(self, rows: DataFrame, *, of: DataFrame) -> DataFrame:
        """Rows that many questions begin with: worked out once, and planned once."""
        return rows.localCheckpoint() if of.inputFiles() else self.spark.emptyDataFrame(rows.schema)


def directory(place: str) -> str:
    """The directory that a history lies in; refuses whatever is none, before anything is written.

    A settings file has its paths made shorter, so `s3://bucket` may come as `s3:/bucket`.
    """
    scheme, found, path = place.partition(":/")
    if not found or len(scheme) < 2 or "/" in scheme:
        return place.rstrip("/")
    if scheme.lower() == "file":
        return "/" + path.strip("/")
    raise InvalidOption(
        "a history lies in a directory that every machine of the session sees, such as "
        f"/shared/history; {scheme} cannot hold one yet, got {place}"
    )


def utc(instant: dt.datetime) -> dt.datetime:
    """An instant that Spark handed over, in UTC whatever this machine's zone is."""
    return instant.astimezone(dt.UTC)
