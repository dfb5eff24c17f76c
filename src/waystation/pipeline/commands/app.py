"""Commands of `waystation pipeline` that need Spark."""

import datetime as dt
import os
import signal
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from waystation.core.app.commands import AsJson
from waystation.core.app.invocation import loaded
from waystation.core.app.progress import watching
from waystation.core.errors import InvalidInput
from waystation.files.commands import wiring as composed
from waystation.files.directory.scan import Skip
from waystation.files.producer import Priorities
from waystation.files.settings import FilesSettings, layout, load_files
from waystation.pipeline import file_scan as scans
from waystation.pipeline import runner
from waystation.pipeline.commands.session import kept_history, spark_session
from waystation.pipeline.commands.shared import CONF, HISTORY, MASTER, prefixes, store_url
from waystation.pipeline.file_scan import ScanRules
from waystation.pipeline.maintenance import compaction, erasure
from waystation.pipeline.maintenance import rebuild as rebuilding
from waystation.pipeline.products.files import FilesSetup
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
    with store_url(context) as url:
        events = EventOptions(url=url, queues=queues, trim=trim, prefix=prefixes(context))
        options = runner.RunOptions(
            events=events,
            target_wait=target / 1000,
            every=every,
            payloads=settings[PipelineSettings].payloads,
            files_layout=layout(settings[FilesSettings]),
        )
        rows = partial(runner.rows_ahead, events) if once else None
        with (
            kept_history(context, master, history, conf, url, rows=rows) as kept,
            watching() as watch,
        ):
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
            try:
                to.write_text(html_report(found))
            except OSError as error:
                raise InvalidInput(f"{to} cannot be written: {error.strerror}") from error
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
    product: Annotated[
        str, typer.Option(help="Product, where queues of several have one name.")
    ] = "",
    mentioned: Annotated[
        bool,
        typer.Option(
            "--mentioned", help="KEY is a name or address: every job_id with it in an event."
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
        gone = erasure.forget(kept, key, queue=queue, product=product, mentioned=mentioned)
    _print_deleted(gone)


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


GLOBS = Annotated[
    list[str] | None,
    typer.Option(
        metavar="GLOB",
        help="May be repeated; default: the settings of the producer.",
        show_default=False,
    ),
]


@app.command()
def scan(
    context: typer.Context,
    place: Annotated[
        str, typer.Argument(help="A directory, or a listing: path,size,mtime as CSV or Parquet.")
    ],
    queue: Annotated[
        str | None,
        typer.Option(
            help="Priority of files without a rule; default producer.default_priority.",
            show_default=False,
        ),
    ] = None,
    include: GLOBS = None,
    exclude: GLOBS = None,
    root: Annotated[
        str,
        typer.Option(help="Directory that the paths of a listing must be in.", show_default=False),
    ] = "",
    listing: Annotated[
        bool, typer.Option("--listing", help="The directory holds a listing in parts.")
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(help="YAML file of the files queue; default: the section `files`."),
    ] = None,
    master: MASTER = None,
    conf: CONF = None,
) -> None:
    """Add the files of a huge tree to the queue.

    By the rules of `waystation files`, with Spark; another scan adds only new files.
    """
    found = load_files(config)
    if found.missing:
        typer.echo(f"waystation: there is no file {found.missing}; the defaults apply", err=True)
    is_tree = Path(place).is_dir() and not listing
    with _url(context, found.settings) as url:
        rules = _rules(found.settings, url, place if is_tree else ".", queue, include, exclude)
        rules = msgspec.structs.replace(rules, root=root.rstrip("/"))
        Priorities(rules.producer, rules.setup.layout)
        with spark_session(context, master, conf, url) as spark, watching() as watch:
            scanned = (
                scans.scan_tree(spark, rules, watch)
                if is_tree
                else scans.scan_listing(spark, place, rules, watch)
            )
    _print(scanned)


def _rules(
    settings: FilesSettings,
    url: str,
    scan_dir: str,
    priority: str | None,
    include: Sequence[str] | None,
    exclude: Sequence[str] | None,
) -> ScanRules:
    producer = composed.producer_options(settings)
    scan = msgspec.structs.replace(
        producer.scan,
        scan_dir=scan_dir,
        include_globs=tuple(include or producer.scan.include_globs),
        exclude_globs=tuple(exclude or producer.scan.exclude_globs),
    )
    return ScanRules(
        url=url,
        setup=FilesSetup(
            layout=composed.layout(settings), options=composed.queue_options(settings)
        ),
        producer=msgspec.structs.replace(
            producer, scan=scan, default_priority=priority or producer.default_priority
        ),
    )


@contextmanager
def _url(context: typer.Context, settings: FilesSettings) -> Generator[str]:
    if settings.redis.addr:
        yield composed.url_of(settings.redis)
        return
    with store_url(context) as url:
        yield url


def _print(scanned: scans.ScanResult) -> None:
    typer.echo(
        f"{scanned.found:,} files found: {scanned.queued:,} added, "
        f"{scanned.known:,} were added before"
    )
    for reason, many in sorted(scanned.skipped.items()):
        hint = "; run again when they have settled" if reason == Skip.FRESH else ""
        typer.echo(f"{many:,} skipped: {reason}{hint}")
    receipt = scanned.receipt
    closed = "-" if receipt.closed_at is None else f"{receipt.closed_at:%Y-%m-%d %H:%M:%S} UTC"
    typer.echo(
        f"receipt {receipt.batch}: {receipt.jobs:,} jobs, closed {closed}, {scanned.seconds:.0f} s"
    )
