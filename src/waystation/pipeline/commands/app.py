"""`waystation pipeline`: everything that happened, kept and asked about."""

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
    typer.Option(formats=["%Y-%m-%d"], help="In UTC; else yesterday.", show_default=False),
]
LAST = Annotated[
    dt.datetime | None,
    typer.Option(formats=["%Y-%m-%d"], help="In UTC; else today.", show_default=False),
]


@app.callback()
def pipeline() -> None:
    """Keep everything that happened, and ask about it."""


@app.command()
def run(
    context: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Take what is there, then end.")] = False,
    queues: QUEUES = "*",
    trim: Annotated[bool, typer.Option("--trim", help="Trim streams behind what is kept.")] = False,
    target: Annotated[int, typer.Option(help="The wait to plan for, in ms.", min=1)] = 1_000,
    every: Annotated[float, typer.Option(help="Seconds between batches.", min=0.1)] = 5.0,
    answer_every: Annotated[float, typer.Option(help="Seconds between answers.", min=1)] = 30.0,
    master: MASTER = None,
    history: HISTORY = None,
    conf: CONF = None,
) -> None:
    """Keep what the streams tell, and answer.

    Goes on until Ctrl-C, or takes what is there with --once.
    """
    with (
        store_url(loaded(context)) as url,
        kept_history(context, master, history, conf, url) as kept,
    ):
        events = EventOptions(url=url, queues=queues, trim=trim)
        options = runner.RunOptions(
            events=events, target_wait=target / 1000, batch_every=every, refresh_every=answer_every
        )
        with watching() as watch:
            if once:
                ran = runner.run(kept, options, watch)
                _tell_round(ran)
                require_consistent(ran.failed_checks)
                return
            with _until_interrupted() as stop:
                runner.follow(kept, options, stop, watch, _tell_round)
        typer.echo("stopped; everything that was read is kept", err=True)


@app.command()
def rebuild(
    context: typer.Context, master: MASTER = None, history: HISTORY = None, conf: CONF = None
) -> None:
    """Make every table anew from the events that are kept."""
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
    """Make the answers of some days anew."""
    today = dt.datetime.now(dt.UTC).date()
    begin = first.date() if first else today - dt.timedelta(days=1)
    with kept_history(context, master, history, conf) as kept, watching() as watch:
        rebuilding.backfill(kept, begin, last.date() if last else today, watch)


@app.command()
def report(
    context: typer.Context,
    to: Annotated[Path | None, typer.Option(help="Write a page.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    master: MASTER = None,
    history: HISTORY = None,
    conf: CONF = None,
) -> None:
    """Say what happened, also as a page."""
    if to is not None and not (to.parent.is_dir() and os.access(to.parent, os.W_OK)):
        raise InvalidInput(f"wanted a file in a folder that can be written to, got {to}")
    with kept_history(context, master, history, conf) as kept:
        with watching() as watch:
            watch.begin("reading the answers")
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
    """Say how far the history has come.

    Ends with 1 when the tables do not add up, or work is lost.
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
        typer.echo("nothing is kept yet: `waystation pipeline run` keeps what the queues tell")
    else:
        last = f"{found.last_at:%Y-%m-%d %H:%M:%S} UTC"
        typer.echo(f"{found.events:,} events kept; the last one happened {last}")
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
    live: Annotated[bool, typer.Option(help="Whether the queues are looked at too.")] = True,
    most: Annotated[int, typer.Option(help="Rows to show.", min=1)] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines.")] = False,
    master: MASTER = None,
    history: HISTORY = None,
    conf: CONF = None,
) -> None:
    """Ask in SQL.

    Over what is kept, table by table, and over what is in the queues now, as `jobs`.
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
        names, rows = _asked(kept, query, most, tables)
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
    """Make few large files of many small ones."""
    with kept_history(context, master, history, conf) as kept:
        with watching() as watch:
            freed = compaction.compact(kept, watch)
        for each in freed:
            typer.echo(f"{each.table:<12} {each.before:>6} files → {each.after}")


@app.command()
def retain(
    context: typer.Context,
    days: Annotated[int, typer.Argument(help="Days to keep.")],
    master: MASTER = None,
    history: HISTORY = None,
    conf: CONF = None,
) -> None:
    """Delete what is older than some days."""
    since = erasure.first_day_kept(days, dt.datetime.now(dt.UTC).date())
    with kept_history(context, master, history, conf) as kept, watching() as watch:
        watch.begin("deleting")
        gone = erasure.retain(kept, since)
    _tell_gone(gone)


@app.command()
def forget(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="The id of a job, file or visitor.")],
    mentioned: Annotated[
        bool,
        typer.Option(
            "--mentioned", help="Every subject that was told of with KEY in it: a name, an address."
        ),
    ] = False,
    master: MASTER = None,
    history: HISTORY = None,
    conf: CONF = None,
) -> None:
    """Delete every row about somebody.

    Also the files that held them; numbers that were counted before stay as they are.
    """
    with kept_history(context, master, history, conf) as kept, watching() as watch:
        watch.begin("forgetting")
        gone = erasure.forget(kept, key, mentioned=mentioned)
    _tell_gone(gone)


app.command()(scan)


@contextmanager
def _until_interrupted() -> Generator[threading.Event]:
    stop = threading.Event()

    def interrupted(number: int, frame: object) -> None:
        stop.set()

    # Spark has put its own there, which would cut the batch under way short.
    before = {each: signal.signal(each, interrupted) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _asked(kept: History, query: str, most: int, tables: list[str]) -> tuple[list[str], list[Any]]:
    # Spark would tell of a mistake on the console, too, as JSON.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    try:
        frame = kept.spark.sql(query)
        return frame.columns, frame.limit(most).collect()
    except Exception as error:
        # Spark explains itself in its first line; the plan that follows helps nobody here.
        said = str(error).strip().splitlines()[0]
        if "[TABLE_OR_VIEW_NOT_FOUND]" in said:
            said = f"{said.split('Verify')[0]}There are {', '.join(tables)}."
        raise InvalidInput(said.partition("] ")[2] or said) from error


def _tell_round(ran: runner.RunResult) -> None:
    typer.echo(
        f"{ran.events:,} rows read, {ran.recommendations} recommendations written, "
        f"{ran.seconds:.0f} s",
        err=True,
    )
    for each in ran.failed_checks:
        typer.echo(f"the tables do not add up: {each}", err=True)


def _tell_gone(gone: dict[str, int]) -> None:
    for table, rows in gone.items():
        typer.echo(f"{table:<12} {rows:>8,} rows")
