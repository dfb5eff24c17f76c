"""`waystation pipeline scan`: the files of a huge tree, added to the files queue by Spark."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from waystation.core.app.progress import watching
from waystation.files.commands import wiring as composed
from waystation.files.directory.scan import Skip
from waystation.files.producer import Priorities
from waystation.files.settings import FilesSettings
from waystation.files.settings_file import load_files
from waystation.pipeline.commands.options import CONF, MASTER
from waystation.pipeline.commands.session import spark_session
from waystation.pipeline.commands.store import store_url
from waystation.pipeline.file_scan import scan as scans
from waystation.pipeline.file_scan.listing import ScanRules
from waystation.pipeline.products.files import FilesSetup

GLOBS = Annotated[
    list[str] | None,
    typer.Option(
        metavar="GLOB",
        help="May be repeated; default: the settings of the producer.",
        show_default=False,
    ),
]


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
