"""Commands of `waystation pipeline` that need Spark."""

import datetime as dt
import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from waystation.core.app.commands import AsJson
from waystation.core.app.loading import loaded
from waystation.core.app.progress import watching
from waystation.core.errors import InvalidInput
from waystation.files.settings import FilesSettings, layout
from waystation.pipeline import runner
from waystation.pipeline.commands.options import CONF, HISTORY, MASTER
from waystation.pipeline.commands.prefixes import prefixes
from waystation.pipeline.commands.scan import scan
from waystation.pipeline.commands.session import kept_history
from waystation.pipeline.commands.store import store_url
from waystation.pipeline.maintenance import compaction, erasure
from waystation.pipeline.maintenance import rebuild as rebuilding
from waystation.pipeline.refresh.quality import require_consistent
from waystation.pipeline.reports import facts
from waystation.pipeline.reports.console import console_report
from waystation.pipeline.reports.page import html_report
from waystation.pipeline.settings import PipelineSettings
from waystation.pipeline.sources.streams import EventOptions

app = typer.Typer(add_completion=False, rich_markup_mode=None)

QUEUES = Annotated[str, typer.Option(help="Names and patterns, separated by commas.")]
FIRST = Annotated[
    dt.datetime | None,
    typer.Option(formats=["%Y-%m-%d"], help="In UTC; default yesterday.", show_default=False),
]
LAST = Annotated[
    dt.datetime | None,
    typer.Option(formats=["%Y-%m-%d"], help="In UTC; default today.", show_default=False),
]


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
    every: Annotated[float, typer.Option(help="Seconds between rounds.", min=1)] = 30.0,
    master: MASTER = None,
    history: HISTORY = None,
    conf: CONF = None,
) -> None:
    """Store events and refresh the tables.

    Runs until Ctrl-C, or stores the events there are with --once.
    """
    settings = loaded(context)
    with (
        store_url(context) as url,
        kept_history(context, master, history, conf, url) as kept,
    ):
        events = EventOptions(url=url, queues=queues, trim=trim, prefix=prefixes(context))
        options = runner.RunOptions(
            events=events,
            target_wait=target / 1000,
            every=every,
            payloads=settings[PipelineSettings].payloads,
            files_layout=layout(settings[FilesSettings]),
        )
        with watching() as watch:
            if once:
                ran = runner.run(kept, options, watch)
                _print_round(ran)
                require_consistent(ran.failed_checks)
                return
            # Spark brings a handler of Ctrl-C, which ours replaces.
            runner.require_driver(kept)
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
    as_json: AsJson = False,
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
    queue: Annotated[
        str, typer.Option(help="Queue, needed when several have this id; '*' for all of them.")
    ] = "",
    line: Annotated[str, typer.Option(help="Product, where queues of several have one name.")] = "",
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
        gone = erasure.forget(kept, key, queue=queue, line=line, mentioned=mentioned)
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
