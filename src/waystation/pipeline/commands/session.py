"""The Spark session and the history of a command, and questions that Spark answers."""

import logging
import math
import os
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import typer
from pyspark.sql import DataFrame, SparkSession

from waystation.core.app.invocation import loaded
from waystation.core.errors import InvalidInput, InvalidOption, WrongSchema
from waystation.pipeline.ask import Answer
from waystation.pipeline.ask.live import live_jobs
from waystation.pipeline.commands.shared import bullmq_prefixes, prefixes, store_url
from waystation.pipeline.history import History
from waystation.pipeline.refresh.snapshot import current_jobs
from waystation.pipeline.settings import PipelineSettings
from waystation.pipeline.sources.store import Store
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.spark import session
from waystation.pipeline.spark.errors import translated
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.places import checked_root, is_remote, way
from waystation.pipeline.storage.sessions import FEW_ROWS, is_connected
from waystation.pipeline.tables import EVENTS

QUIET = {
    "spark.log.level": "ERROR",
    # Spark creates this folder for SQL, by default in the current directory.
    "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "waystation-warehouse"),
}


@contextmanager
def spark_session(
    context: typer.Context, master: str | None, conf: Sequence[str] | None, url: str | None = None
) -> Generator[session.SparkSession]:
    """The session of a command; our data sources find the store's URL in its environment."""
    with _started(_options(context, master, conf), url) as spark:
        yield spark


def _options(
    context: typer.Context, master: str | None, conf: Sequence[str] | None
) -> session.SessionOptions:
    settings = loaded(context)[PipelineSettings]
    if master and session.is_submitted():
        raise InvalidOption("Spark is running already: give --master to spark-submit instead")
    chosen = master or settings.master
    # The server of a session decides such things itself.
    quiet = {} if chosen.startswith(session.CONNECT) else QUIET
    return session.SessionOptions(
        master=chosen,
        driver_memory=settings.driver_memory,
        conf={**quiet, **settings.spark, **dict(map(_setting, conf or ()))},
    )


@contextmanager
def _started(options: session.SessionOptions, url: str | None) -> Generator[session.SparkSession]:
    if not session.is_running():
        typer.echo("starting Spark …", err=True)
    with session.open_session(options) as spark, translated():
        if url is not None:
            session.share_url(spark, url)
        yield spark


def rows_kept(root: str) -> float:
    """The events in a history, which is what most commands read."""
    try:
        return delta.count(EVENTS.path(root))
    except WrongSchema:
        # Of an older version: whoever may read that says so.
        return math.inf


@contextmanager
def kept_history(
    context: typer.Context,
    master: str | None,
    place: str | None,
    conf: Sequence[str] | None,
    url: str | None = None,
    *,
    rows: Callable[[str], float] | None = rows_kept,
) -> Generator[History]:
    """The history of a command; Spark starts when something needs it.

    `rows` tells how many rows Spark will get for the history at a place; None: more and more.
    """
    settings = loaded(context)[PipelineSettings]
    root = checked_root(place or str(settings.history))
    if is_remote(root):
        typer.echo(way(root), err=True)
    else:
        _require_directory(Path(root))
    # Checked now, whether Spark is needed or not.
    options = _options(context, master, conf)
    with ExitStack() as stack:

        def start() -> session.SparkSession:
            few = rows is not None and rows(root) <= FEW_ROWS
            chosen = msgspec.structs.replace(options, few_rows=few)
            return stack.enter_context(_started(chosen, url))

        with translated():
            yield History(start, root)


def _require_directory(root: Path) -> None:
    """Refuse a place where no directory is and none can be made."""
    there = next(each for each in (root.absolute(), *root.absolute().parents) if each.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise InvalidOption(f"a history must be a directory that can be written, got {root}")


def _setting(text: str) -> tuple[str, str]:
    name, given, value = text.partition("=")
    if not given:
        raise InvalidOption(f"wanted --conf NAME=VALUE, got {text!r}")
    return name.strip(), value.strip()


Place: TypeAlias = tuple[str | None, str | None, Sequence[str] | None]
"""Master, history and settings of Spark, as a command was given them."""


def ask_spark(context: typer.Context, query: str, *, live: bool, most: int, at: Place) -> Answer:
    """Answer a question with Spark."""
    master, history, conf = at
    # Nobody knows how many jobs the store holds.
    rows = None if live else rows_kept
    with (
        store_url(context) as url,
        kept_history(context, master, history, conf, url, rows=rows) as kept,
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
