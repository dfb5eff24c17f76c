"""Commands that answer questions without Java."""

import re
from collections.abc import Generator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any

import typer

from waystation.core.app.loading import loaded
from waystation.core.errors import InvalidInput, InvalidOption
from waystation.pipeline.ask.engine import Answer, Engine
from waystation.pipeline.ask.live import live_jobs
from waystation.pipeline.commands.printing import print_answer
from waystation.pipeline.commands.store import CONF, HISTORY, MASTER, store_url
from waystation.pipeline.settings import PipelineSettings
from waystation.pipeline.sources.store import Store
from waystation.pipeline.storage.places import checked_root, is_remote

AS_JSON = Annotated[bool, typer.Option("--json", help="Print JSON lines.")]


class EngineName(StrEnum):
    """What answers a question."""

    DUCKDB = "duckdb"
    SPARK = "spark"


def sql(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="Over events, attempts, items, hourly, jobs, …")],
    live: Annotated[bool, typer.Option(help="Whether the queues can be queried as `jobs`.")] = True,
    most: Annotated[int, typer.Option(help="Rows to show.", min=1)] = 100,
    as_json: AS_JSON = False,
    engine: Annotated[
        EngineName, typer.Option(help="Spark answers questions that are too large for DuckDB.")
    ] = EngineName.DUCKDB,
    master: MASTER = None,
    history: HISTORY = None,
    conf: CONF = None,
) -> None:
    """Run a SQL query.

    Over the tables of the history, and over the jobs that are in the queues now, as `jobs`.
    """
    if engine is EngineName.SPARK:
        from waystation.pipeline.commands.spark_sql import ask_spark

        answer = ask_spark(context, query, live=live, most=most, at=(master, history, conf))
    else:
        with asking(context, history) as asked:
            asked.add_tables()
            answer = _answer(context, asked, query, live=live, most=most)
    print_answer(answer, as_json=as_json)


def status(context: typer.Context, history: HISTORY = None, as_json: AS_JSON = False) -> None:
    """Show lag, consistency checks and lost jobs.

    Exits with 1 when a check fails or jobs are lost.
    """
    from waystation.pipeline.commands.health import print_status

    place = root_of(context, history)
    with store_url(loaded(context)) as url:
        print_status(place, url, as_json=as_json)


@contextmanager
def asking(context: typer.Context, history: str | None) -> Generator[Engine]:
    """The engine over the history of a command."""
    root = root_of(context, history)
    if is_remote(root):
        raise InvalidOption(
            f"DuckDB answers about directories only, got {root}; `sql --engine spark` asks Spark"
        )
    with Engine(root) as engine:
        yield engine


def root_of(context: typer.Context, history: str | None) -> str:
    """The directory of a command's history."""
    return checked_root(history or str(loaded(context)[PipelineSettings].history))


def _answer(context: typer.Context, engine: Engine, query: str, *, live: bool, most: int) -> Answer:
    if live and re.search(r"\bjobs\b", query, re.IGNORECASE):
        with store_url(loaded(context)) as url:
            engine.add_rows("jobs", live_jobs(Store(url)))
    try:
        return engine.ask(query, most)
    except InvalidInput as error:
        if "There are" not in str(error):
            raise
    # Perhaps a table that only one product has, and that does not exist yet.
    with asking(context, engine.root) as again:
        again.add_tables(_product_tables())
        return again.ask(query, most)


def _product_tables() -> list[Any]:
    from waystation.pipeline.products import product_tables

    return list(product_tables())
