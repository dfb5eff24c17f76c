"""History: the tables kept in one place, open work included."""

import datetime as dt
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from waystation.pipeline.hours import Hours
from waystation.pipeline.products import product_tables
from waystation.pipeline.products.facts import HistoryFrames
from waystation.pipeline.silver.moves import OPEN_ATTEMPTS, OPEN_FAILURES, OPEN_ITEMS
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import pa, pc
from waystation.pipeline.storage.places import checked_root, credentials, is_remote
from waystation.pipeline.storage.sessions import is_connected, prepared, share
from waystation.pipeline.storage.sql import Frame
from waystation.pipeline.tables import ATTEMPTS, EVENTS, FAILED_ITEMS, ITEMS, Table, every

SPARK_FROM = 1_000_000
"""Rows from which on a step is left to Spark; fewer are computed in this process."""


class History:
    """The tables kept in the directory `root`, read with a Spark session.

    Any session will do: it gets our data sources, and the time zone UTC. Instead of a session it
    takes a function that starts one: then Spark starts when it is needed. A step
    with fewer rows than `spark_from` is computed in this process, without Java.
    """

    def __init__(
        self,
        spark: SparkSession | Callable[[], SparkSession],
        root: str,
        *,
        spark_from: int = SPARK_FROM,
    ) -> None:
        self._spark = spark
        self.root = checked_root(root)
        self.spark_from = spark_from
        self._here = ArrowFrames(self.root)

    @property
    def spark(self) -> SparkSession:
        """The Spark session, started when it is first needed, ready for the thread that asks."""
        if is_remote(self.root) and not is_connected(self._started):
            share(self._started, credentials())
        return prepared(self._started)

    @cached_property
    def _started(self) -> SparkSession:
        # A session of Spark Connect is of another class, so it is known by what it is not.
        return self._spark() if callable(self._spark) else self._spark

    def fresh(self) -> "History":
        """The same history, with nothing computed yet."""
        return History(lambda: self._started, self.root, spark_from=self.spark_from)

    def read(
        self,
        table: Table,
        *,
        days: Sequence[dt.date] | None = None,
        columns: Sequence[str] | None = None,
    ) -> DataFrame:
        """One table as it is stored, or only some days of it; empty when it does not exist yet."""
        return delta.read(self.spark, self.root, table, days=days, columns=columns)

    def attempts(self, hours: Hours | None = None) -> DataFrame:
        """All attempts, running ones included; with `hours`, those started in these hours."""
        kept = self.read(ATTEMPTS, days=None if hours is None else hours.days)
        running = self.read(OPEN_ATTEMPTS)
        if hours is not None:
            kept = kept.where(hours.contain(F.col("started_at")))
            running = running.where(hours.contain(F.col("started_at")))
        return kept.unionByName(running)

    def items(
        self, days: Sequence[dt.date] | None = None, columns: Sequence[str] = ITEMS.names
    ) -> DataFrame:
        """All jobs and files, open ones included; with `days`, those added on these days."""
        kept = self.read(ITEMS, days=days, columns=columns)
        unfinished = self.read(OPEN_ITEMS)
        if days is not None:
            unfinished = unfinished.where(F.col("date").isin(list(days)))
        return kept.unionByName(unfinished.select(*columns))

    def failed_items(self, columns: Sequence[str]) -> DataFrame:
        """Some columns of each job or file, open ones too, and each kind of failure it had."""
        kept = self.read(FAILED_ITEMS, columns=columns)
        return kept.unionByName(self.failing().select(*columns))

    def open_items(self) -> DataFrame:
        """The jobs and files that have not ended, as rows of `items`."""
        return self.read(OPEN_ITEMS)

    def failing(self) -> DataFrame:
        """Each job or file that has not ended, and each kind of failure it had."""
        return self.read(OPEN_FAILURES)

    def events(self, hours: Hours | None = None) -> DataFrame:
        """All events; with `hours`, those that happened in these hours."""
        if hours is None:
            return self.read(EVENTS)
        return self.read(EVENTS, days=hours.days).where(hours.contain(F.col("at")))

    def rows_about(
        self, table: Table, subjects: Sequence[str], columns: Sequence[str]
    ) -> DataFrame:
        """Some columns of a table as it is stored: at least the rows about these ids."""
        return self.read(table, columns=columns)

    def rows_since(
        self, table: Table, column: str, since: dt.datetime, columns: Sequence[str]
    ) -> DataFrame:
        """Some columns of a table as it is stored: the rows with an instant since another one."""
        within = (column, since, None)
        rows = delta.read(self.spark, self.root, table, columns=columns, within=within)
        return rows.where(F.col(column) >= F.lit(since))

    def events_about(self, subjects: Sequence[str], since: dt.date) -> DataFrame:
        """The events since a day: at least those about these ids."""
        return self.read(EVENTS).where(F.col("date") >= since)

    def events_of(self, line: str, since: dt.datetime) -> DataFrame:
        """The events of a product after an instant."""
        ours = self.read(EVENTS).where(F.col("line") == line)
        return ours.where(F.col("at") > F.lit(since))

    def create_views(self) -> list[str]:
        """Make every table a temporary view, so that SQL can name it; returns the names."""
        views = {table.name: self.read(table) for table in (*every(), *product_tables())}
        views |= {"attempts": self.attempts(), "items": self.items()}
        for name, rows in views.items():
            rows.createOrReplaceTempView(name)
        return sorted(views)


def is_left_to_spark(history: History) -> bool:
    """Whether Spark can do the steps of a run.

    Through Spark Connect it cannot: what a fold computes is deeper than a message may be, and a
    server has the environment that it was started with.
    """
    return not is_connected(history.spark)


def is_by_tasks(history: History) -> bool:
    """Whether every step is left to Spark, whatever its size."""
    return not history.spark_from and is_left_to_spark(history)


def frames_of(history: History, *, rows: int) -> HistoryFrames:
    """The tables of a history for a step with so many rows: in this process, or with Spark.

    Through Spark Connect all steps are computed in this process.
    """
    is_here = rows < history.spark_from or not is_left_to_spark(history)
    return history._here if is_here else history  # pyright: ignore[reportPrivateUsage]


class ArrowFrames:
    """The same tables in this process, as Arrow tables."""

    def __init__(self, root: str) -> None:
        self.root = root

    def read(
        self,
        table: Table,
        *,
        days: Sequence[dt.date] | None = None,
        columns: Sequence[str] | None = None,
    ) -> Frame:
        """One table as it is stored, or only some days of it."""
        return delta.read_arrow(self.root, table, columns or table.names, days=days)

    def attempts(self, hours: Hours | None = None) -> Frame:
        """All attempts, running ones included; with `hours`, those started in these hours."""
        running = self.read(OPEN_ATTEMPTS)
        if hours is None:
            return pa.concat_tables([self.read(ATTEMPTS), running])
        kept = self._in_hours(ATTEMPTS, "started_at", hours)
        return pa.concat_tables([kept, _within(running, "started_at", hours)])

    def items(
        self, days: Sequence[dt.date] | None = None, columns: Sequence[str] = ITEMS.names
    ) -> Frame:
        """All jobs and files, open ones included; with `days`, those added on these days."""
        kept = self.read(ITEMS, days=days, columns=columns)
        unfinished = self.read(OPEN_ITEMS)
        if days is not None:
            mine = pc.is_in(unfinished["date"], pa.array(days, pa.date32()))
            unfinished = unfinished.filter(mine)
        return pa.concat_tables([kept, unfinished.select(columns)])

    def open_items(self) -> Frame:
        """The jobs and files that have not ended, as rows of `items`."""
        return self.read(OPEN_ITEMS)

    def failing(self) -> Frame:
        """Each job or file that has not ended, and each kind of failure it had."""
        return self.read(OPEN_FAILURES)

    def events(self, hours: Hours | None = None) -> Frame:
        """All events; with `hours`, those that happened in these hours."""
        return self.read(EVENTS) if hours is None else self._in_hours(EVENTS, "at", hours)

    def rows_about(
        self,
        table: Table,
        subjects: Sequence[str],
        columns: Sequence[str],
        *,
        days: Sequence[dt.date] | None = None,
    ) -> Frame:
        """Some columns of the rows of a table about these ids, as it is stored."""
        about = _among(subjects)
        return delta.read_arrow(self.root, table, columns, about, by=("subject",), days=days)

    def rows_since(
        self, table: Table, column: str, since: dt.datetime, columns: Sequence[str]
    ) -> Frame:
        """Some columns of a table as it is stored: the rows with an instant since another one."""
        where, within = pc.field(column) >= since, (column, since, None)
        return delta.read_arrow(self.root, table, columns, where, by=(column,), within=within)

    def events_about(self, subjects: Sequence[str], since: dt.date) -> Frame:
        """The events since a day about these ids."""
        where = _among(subjects) & (pc.field("date") >= since)
        return delta.read_arrow(self.root, EVENTS, EVENTS.names, where)

    def events_of(self, line: str, since: dt.datetime) -> Frame:
        """The events of a product after an instant."""
        later = (pc.field("line") == line) & (pc.field("at") > since)
        within = ("at", since, None)
        return delta.read_arrow(self.root, EVENTS, EVENTS.names, later, within=within)

    def _in_hours(self, table: Table, column: str, hours: Hours) -> Frame:
        """The rows of a table in these hours, which several gold tables are computed from."""
        known, rows = self._last.get(table.name, (None, None))
        if known != hours:
            found = delta.read_arrow(
                self.root,
                table,
                table.names,
                hours.arrow_range(pc.field(column)),
                days=hours.days,
                within=(column, *hours.bounds),
            )
            rows = _within(found, column, hours)
            self._last[table.name] = hours, rows
        return rows

    @cached_property
    def _last(self) -> dict[str, tuple[Hours, Frame]]:
        """The rows that were last read of a table, and their hours."""
        return {}


def _among(subjects: Sequence[str]) -> Any:
    return pc.field("subject").isin(pa.array(subjects, pa.string()))


def _within(rows: Frame, column: str, hours: Hours | None) -> Frame:
    """Rows of these hours only."""
    if hours is None or not rows.num_rows:
        return rows
    return rows.filter(hours.arrow_filter(pc.floor_temporal(pc.field(column), unit="hour")))


def utc(instant: dt.datetime) -> dt.datetime:
    """An instant from Spark, in UTC whatever this machine's time zone is."""
    return instant.astimezone(dt.UTC)
