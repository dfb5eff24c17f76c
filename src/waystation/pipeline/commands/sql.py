"""`waystation pipeline sql`: one SELECT over the history and the queues."""

import re
from enum import StrEnum
from typing import Annotated, Any

import typer

from waystation.core.errors import InvalidInput
from waystation.pipeline.ask.answers import Answer
from waystation.pipeline.ask.engine import Engine
from waystation.pipeline.commands.asking import asking
from waystation.pipeline.commands.options import AS_JSON, CONF, HISTORY, MASTER
from waystation.pipeline.commands.printing import print_answer

app = typer.Typer(add_completion=False, rich_markup_mode=None)


class EngineName(StrEnum):
    """What answers a question."""

    DUCKDB = "duckdb"
    SPARK = "spark"


@app.command()
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
        answer = _answer(context, query, live=live, most=most, history=history)
    print_answer(answer, as_json=as_json)


def _answer(
    context: typer.Context, query: str, *, live: bool, most: int, history: str | None
) -> Answer:
    words = set(re.findall(r"\w+", query.lower()))
    with_jobs = live and "jobs" in words
    # Opening a table takes longer than many an answer.
    named = None if any(map(_is_catalog, words)) else words
    with asking(context, history) as engine:
        engine.add_tables(named=named)
        if with_jobs:
            _add_live_jobs(context, engine)
        try:
            return engine.ask(query, most)
        except InvalidInput as error:
            if "There are" not in str(error):
                raise
    # Perhaps a table that only one product has, and that does not exist yet.
    with asking(context, history) as engine:
        engine.add_tables(_product_tables())
        if with_jobs:
            _add_live_jobs(context, engine)
        return engine.ask(query, most)


def _is_catalog(word: str) -> bool:
    return word.startswith(("information_schema", "duckdb_", "pg_"))


def _add_live_jobs(context: typer.Context, engine: Engine) -> None:
    # The client of the store is imported only for questions about it.
    from waystation.pipeline.ask.live import live_jobs
    from waystation.pipeline.commands.prefixes import bullmq_prefixes
    from waystation.pipeline.commands.store import store_url
    from waystation.pipeline.sources.store import Store

    with store_url(context) as url:
        engine.add_rows("jobs", live_jobs(Store(url), bullmq_prefixes(context)))


def _product_tables() -> list[Any]:
    from waystation.pipeline.products import product_tables

    return list(product_tables())
