"""History: the tables kept in one place, open work included."""

import datetime as dt
import os
from collections.abc import Callable, Sequence
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from waystation.pipeline.products import product_tables
from waystation.pipeline.silver.moves import OPEN_ATTEMPTS, OPEN_ITEMS
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.places import checked_root, credentials, is_remote
from waystation.pipeline.storage.sessions import is_connected, prepared, share
from waystation.pipeline.tables import ATTEMPTS, EVENTS, ITEMS, Table, every


class History:
    """The tables kept in the directory `root`, read with a Spark session.

    Any session will do: it gets our data sources, and the time zone UTC. Instead of a session it
    takes a function that starts one: then Spark starts when it is needed.
    """

    def __init__(self, spark: SparkSession | Callable[[], SparkSession], root: str) -> None:
        self._spark = spark
        place = checked_root(root)
        # Spark's processes keep the directory that they were started in.
        self.root = place if is_remote(place) else os.path.abspath(place)

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

    def read(
        self,
        table: Table,
        *,
        days: Sequence[dt.date] | None = None,
        columns: Sequence[str] | None = None,
    ) -> DataFrame:
        """One table as it is stored, or only some days of it; empty when it does not exist yet."""
        return delta.read(self.spark, self.root, table, days=days, columns=columns)

    def attempts(self) -> DataFrame:
        """All attempts, running ones included."""
        return self.read(ATTEMPTS).unionByName(self.read(OPEN_ATTEMPTS))

    def items(self) -> DataFrame:
        """All jobs and files, open ones included."""
        return self.read(ITEMS).unionByName(self.read(OPEN_ITEMS))

    def events(self) -> DataFrame:
        """All events."""
        return self.read(EVENTS)

    def rows_since(
        self, table: Table, column: str, since: dt.datetime, columns: Sequence[str]
    ) -> DataFrame:
        """Some columns of a table as it is stored: the rows with an instant since another one."""
        within = (column, since, None)
        rows = delta.read(self.spark, self.root, table, columns=columns, within=within)
        return rows.where(F.col(column) >= F.lit(since))

    def create_views(self) -> list[str]:
        """Make every table a temporary view, so that SQL can name it; returns the names."""
        views = {table.name: self.read(table) for table in (*every(), *product_tables())}
        views |= {"attempts": self.attempts(), "items": self.items()}
        for name, rows in views.items():
            rows.createOrReplaceTempView(name)
        return sorted(views)


def utc(instant: dt.datetime) -> dt.datetime:
    """An instant from Spark, in UTC whatever this machine's time zone is."""
    return instant.astimezone(dt.UTC)
