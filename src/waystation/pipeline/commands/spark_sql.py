"""Questions to Spark, for tables that one machine cannot read."""

import logging
from collections.abc import Sequence
from typing import Any, TypeAlias

import typer
from pyspark.sql import DataFrame, SparkSession

from waystation.core.errors import InvalidInput
from waystation.pipeline.ask.answers import Answer
from waystation.pipeline.ask.live import live_jobs
from waystation.pipeline.commands.prefixes import bullmq_prefixes, prefixes
from waystation.pipeline.commands.session import kept_history
from waystation.pipeline.commands.store import store_url
from waystation.pipeline.history import History
from waystation.pipeline.refresh.snapshot import current_jobs
from waystation.pipeline.sources.store import Store
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.storage.sessions import is_connected

Place: TypeAlias = tuple[str | None, str | None, Sequence[str] | None]
"""Master, history and settings of Spark, as a command was given them."""


def ask_spark(context: typer.Context, query: str, *, live: bool, most: int, at: Place) -> Answer:
    """Answer a question with Spark."""
    master, history, conf = at
    with (
        store_url(context) as url,
        kept_history(context, master, history, conf, url) as kept,
    ):
        tables = kept.create_views()
        if live:
            _present_jobs(context, kept.spark, url).createOrReplaceTempView("jobs")
            tables.append("jobs")
        return Answer(*_query(kept, query, most, tables))


def _present_jobs(context: typer.Context, spark: SparkSession, url: str) -> DataFrame:
    if is_connected(spark):
        # Read here: the server need not know the store, and its logs do not show the URL.
        return spark.createDataFrame(live_jobs(Store(url), bullmq_prefixes(context)))
    return current_jobs(spark, EventOptions(url=url, prefix=prefixes(context)))


def _query(
    kept: History, query: str, most: int, tables: list[str]
) -> tuple[list[str], list[Any], bool]:
    # Spark would also print an error of the query as JSON.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    try:
        frame = kept.spark.sql(query)
        rows = frame.limit(most + 1).collect()
        return frame.columns, rows[:most], len(rows) <= most
    except Exception as error:
        # The first line is the error; the query plan follows.
        message = str(error).strip().splitlines()[0]
        if "[TABLE_OR_VIEW_NOT_FOUND]" in message:
            message = f"{message.split('Verify')[0]}There are {', '.join(tables)}."
        raise InvalidInput(message.partition("] ")[2] or message) from error
