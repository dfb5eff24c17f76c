"""`waystation pipeline`: the history of all queues, on Spark."""

import datetime as dt
import logging
import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from numbers import Number
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from waystation.core.app.loading import loaded
from waystation.core.app.progress import watching
from waystation.core.errors import InvalidInput
from waystation.pipeline import health, runner
from waystation.pipeline.commands.scan import scan
from waystation.pipeline.commands.session import CONF, HISTORY, MASTER, kept_history, store_url
from waystation.pipeline.history import History
from waystation.pipeline.maintenance import compaction, erasure
from waystation.pipeline.maintenance import rebuild as rebuilding
from waystation.pipeline.refresh.checks import require_consistent
from waystation.pipeline.refresh.snapshot import current_jobs
from waystation.pipeline.reports import facts
from waystation.pipeline.reports.console import console_report
from waystation.pipeline.reports.page import html_report
from waystation.pipeline.sources.streams import EventOptions

EXAMPLES = """\b
Examples:
  waystation pipeline run --once
  waystation pipeline report --to report.html
  waystation pipeline sql "select queue, count(*) from items group by 1"
  waystation pipeline scan /data --exclude '**/*.tmp'
"""

app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode=None, epilog=EXAMPLES
)

QUEUES = Annotated[str, typer.Option(help="Names and patterns, separated by commas.")]
FIRST = Annotated[
    dt.datetime | None,
    typer.Option(formats=["%Y-%m-%d"], help="In UTC; default yesterday.", show_default=False),
]
LAST = Annotated[
    dt.datetime | None,
    typer.Option(formats=["%Y-%m-%d"], help="In UTC; default today.", show_default=False),
]


@app.callback()
def pipeline() -> None:
    """Keep the history of all queues, and ask about it."""


@app.command()
def run(
    context: typer.Context,
    once: Annotated[
        bool, typer.Option("--once", help="Store the present events, then end.")
    ] = False,
    queues: QUEUES = "*",
    trim: Annotated[
        bool, typer.Option("--trim", help="Trim streams behind stored events.")
    ] = False,
    target: Annotated[int, typer.Option(help="Target wait in ms.", min=1)] = 1_000,
    every: Annotated[float, typer.Option(help="Seconds between batches of events.", min=0.1)] = 5.0,
    refresh_every: Annotated[
        float, typer.Option(help="Seconds between refreshes of the tables.", min=1)
    ] = 30.0,
    master: MASTER = None,
    history: HISTORY = None,
    conf: CONF = None,
) -> None:
    """Store events and refresh the tables.

    Runs until Ctrl-C, or stores the events there are with --once.
    """
    with (
        store_url(loaded(context)) as url,
        kept_history(context, master, history, conf, url) as kept,
    ):
        events = EventOptions(url=url, queues=queues, trim=trim)
        options = runner.RunOptions(
            events=events, target_wait=target / 1000, batch_every=every, refresh_every=refresh_every
        )
        with watching() as watch:
            if once:
                ran = runner.run(kept, options, watch)
                _print_round(ran)
                require_consistent(ran.failed_checks)
                return
            with _until_interrupted() as stop:
                runner.follow(kept, options, stop, watch, _print_round)
        typer.echo("stopped; all events that were read are stored", err=True)


@app.command()
def rebuild(
    context: typer.Context, master: MASTER = None, history: HISTORY = None, conf: CONF = None
) -> None:
    """Build silver and gold again from bronze."""
    with kept_history(context, master, history, conf) as kept, watching() as watch:
        rebuilding.rebuild(kept, watch)


@app.command()
def backfill(
    context: typer.Context,
    first: FIRST = None,
    last: LAST = None,
    master: MASTER = None,
    history: HISTORY = None,
    conf: CONF = None,
) -> None:
    """Compute the gold tables of some days again."""
    today = dt.datetime.now(dt.UTC).date()
    begin = first.date() if first else today - dt.timedelta(days=1)
    with kept_history(context, master, history, conf) as kept, watching() as watch:
        rebuilding.backfill(kept, begin, last.date() if last else today, watch)


@app.command()
def report(
    context: typer.Context,
    to: Annotated[
        Path | None, typer.Option(help="File for an HTML page.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    master: MASTER = None,
    history: HISTORY = None,
    conf: CONF = None,
) -> None:
    """Print a report, or write it as an HTML page."""
    if to is not None and not (to.parent.is_dir() and os.access(to.parent, os.W_OK)):
        raise InvalidInput(f"wanted a file in a folder that can be written to, got {to}")
    with kept_history(context, master, history, conf) as kept:
        with watching() as watch:
            watch.begin("reading gold tables")
            found = facts.report(kept)
        if as_json:
            typer.echo(msgspec.json.encode(found).decode())
        else:
            Console().print(console_report(found))
        if to is not None:
            to.write_text(html_report(found))
            typer.echo(f"written to {to}", err=True)


@app.command()
def status(
    context: typer.Context, master: MASTER = None, history: HISTORY = None, conf: CONF = None
) -> None:
    """Show lag, consistency checks and lost jobs.

    Exits with 1 when a check fails or jobs are lost.
    """
    with (
        store_url(loaded(context)) as url,
        kept_history(context, master, history, conf, url) as kept,
    ):
        found = health.status(kept, EventOptions(url=url))
    for each in found.streams:
        many = "?" if each.events is None else f"{each.events:,}"
        typer.echo(f"{each.stream:<40} {many:>10} events to be read")
    if found.last_at is None:
        typer.echo("the history is empty: `waystation pipeline run` stores events")
    else:
        last = f"{found.last_at:%Y-%m-%d %H:%M:%S} UTC"
        typer.echo(f"{found.events:,} events stored; the last one happened {last}")
    for check in found.checks:
        typer.echo(f"{'ok    ' if check.passed else 'FAILED'}  {check}")
    for each in found.lost:
        typer.echo(f"lost  {each}")
    require_consistent(found.failed_checks)
    if found.lost:
        raise typer.Exit(1)


@app.command()
def sql(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="Over events, attempts, items, hourly, jobs, …")],
    live: Annotated[bool, typer.Option(help="Whether the queues can be queried as `jobs`.")] = True,
    most: Annotated[int, typer.Option(help="Rows to show.", min=1)] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines.")] = False,
    master: MASTER = None,
    history: HISTORY = None,
    conf: CONF = None,
) -> None:
    """Run a SQL query.

    Over the tables of the history, and over the jobs that are in the queues now, as `jobs`.
    """
    with (
        store_url(loaded(context)) as url,
        kept_history(context, master, history, conf, url) as kept,
    ):
        tables = kept.create_views()
        if live:
            events = EventOptions(url=url)
            current_jobs(kept.spark, events).createOrReplaceTempView("jobs")
            tables.append("jobs")
        names, rows = _query(kept, query, most, tables)
    if as_json:
        for row in rows:
            typer.echo(msgspec.json.encode(dict(zip(names, row, strict=True)), enc_hook=str))
        return
    table = Table(box=None, pad_edge=False)
    for n, name in enumerate(names):
        counted = all(isinstance(row[n], Number | None) for row in rows)
        table.add_column(name, overflow="fold", justify="right" if counted else "left")
    for row in rows:
        table.add_row(*(Text("-" if value is None else str(value)) for value in row))
    Console().print(table)


@app.command()
def compact(
    context: typer.Context, master: MASTER = None, history: HISTORY = None, conf: CONF = None
) -> None:
    """Compact small files and delete old versions."""
    with kept_history(context, master, history, conf) as kept:
        with watching() as watch:
            compacted = compaction.compact(kept, watch)
        for each in compacted:
            typer.echo(f"{each.table:<12} {each.before:>6} files → {each.after}")


@app.command()
def retain(
    context: typer.Context,
    days: Annotated[int, typer.Argument(help="Days to keep.")],
    master: MASTER = None,
    history: HISTORY = None,
    conf: CONF = None,
) -> None:
    """Delete rows older than some days."""
    since = erasure.first_day_kept(days, dt.datetime.now(dt.UTC).date())
    with kept_history(context, master, history, conf) as kept, watching() as watch:
        watch.begin("deleting")
        gone = erasure.retain(kept, since)
    _print_deleted(gone)


@app.command()
def forget(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="The id of a job, file or visitor.")],
    mentioned: Annotated[
        bool,
        typer.Option(
            "--mentioned", help="KEY is a name or address: every subject with it in an event."
        ),
    ] = False,
    master: MASTER = None,
    history: HISTORY = None,
    conf: CONF = None,
) -> None:
    """Delete every trace of a job, file or visitor.

    Also the files that held the rows; totals that were counted before stay as they are.
    """
    with kept_history(context, master, history, conf) as kept, watching() as watch:
        watch.begin("erasing")
        gone = erasure.forget(kept, key, mentioned=mentioned)
    _print_deleted(gone)


app.command()(scan)


@contextmanager
def _until_interrupted() -> Generator[threading.Event]:
    stop = threading.Event()

    def interrupted(number: int, frame: object) -> None:
        stop.set()

    # Spark's own handlers would interrupt the present batch.
    before = {each: signal.signal(each, interrupted) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _query(kept: History, query: str, most: int, tables: list[str]) -> tuple[list[str], list[Any]]:
    # Spark would also print an error of the query as JSON.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    try:
        frame = kept.spark.sql(query)
        return frame.columns, frame.limit(most).collect()
    except Exception as error:
        # The first line is the error; the query plan follows.
        message = str(error).strip().splitlines()[0]
        if "[TABLE_OR_VIEW_NOT_FOUND]" in message:
            message = f"{message.split('Verify')[0]}There are {', '.join(tables)}."
        raise InvalidInput(message.partition("] ")[2] or message) from error


def _print_round(ran: runner.RunResult) -> None:
    typer.echo(
        f"{ran.events:,} events stored, {ran.recommendations} recommendations written, "
        f"{ran.seconds:.0f} s",
        err=True,
    )
    for each in ran.failed_checks:
        typer.echo(f"the tables do not agree: {each}", err=True)


def _print_deleted(gone: dict[str, int]) -> None:
    for table, rows in gone.items():
        typer.echo(f"{table:<12} {rows:>8,} rows")
