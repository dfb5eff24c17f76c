"""What commands of the pipeline share: options, settings, the store, and rows on a terminal."""

import os
import shutil
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from numbers import Number
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from waystation.bullmq.redis.keys import PREFIX
from waystation.bullmq.redis.prefixes import Prefixes, check_several
from waystation.core.app import invocation
from waystation.core.app.invocation import loaded_only
from waystation.core.errors import InvalidInput, InvalidOption, InvalidSetting
from waystation.core.events import Product
from waystation.core.settings.load import is_set, load, text_of
from waystation.core.store import embedded
from waystation.pipeline.ask import Answer
from waystation.pipeline.settings import PipelineSettings
from waystation.pipeline.storage.places import checked_root

MASTER = Annotated[
    str | None, typer.Option(help="Spark master; default pipeline.master.", show_default=False)
]
HISTORY = Annotated[
    str | None,
    typer.Option(
        help="Directory or URL of the tables; default pipeline.history.", show_default=False
    ),
]
CONF = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="A Spark setting; may be repeated.",
        show_default=False,
    ),
]
AS_JSON = Annotated[bool, typer.Option("--json", help="Print JSON lines.")]


def pipeline_settings(context: typer.Context) -> PipelineSettings:
    """The section `pipeline`."""
    return loaded_only(context, {"pipeline": PipelineSettings})[PipelineSettings]


def root_of(context: typer.Context, history: str | None) -> str:
    """The directory of a command's history."""
    return checked_root(history or str(pipeline_settings(context).history))


def require_writable(to: Path | None) -> None:
    """Refuse a file that cannot be written, before anything is computed for it."""
    if to is not None and not (to.parent.is_dir() and os.access(to.parent, os.W_OK)):
        raise InvalidInput(f"wanted a file in a folder that can be written to, got {to}")


GAP = "  "
NARROW = 12
"""The width that no column is cut to."""
WIDEST = 200
"""The width that no shorter text is filled up beyond."""


def print_answer(answer: Answer, *, as_json: bool) -> None:
    """Print the rows of an answer, and on stderr that there are more."""
    names, rows, _ = answer
    say_if_cut(answer)
    if as_json:
        for row in rows:
            typer.echo(json_line(dict(zip(names, row, strict=True))))
        return
    texts = [[_text(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(names, *texts, strict=True)]
    if sys.stdout.isatty():
        widths = _fitted(widths, shutil.get_terminal_size().columns)
    to_the_right = [
        bool(rows) and all(isinstance(row[n], Number | None) for row in rows)
        for n in range(len(names))
    ]
    for line in (names, *texts):
        cells = map(_cell, line, widths, to_the_right)
        typer.echo(GAP.join(cells).rstrip())


def say_if_cut(answer: Answer) -> None:
    """Say on stderr that there are more rows than were asked for."""
    if not answer.complete:
        typer.echo(f"only {len(answer.rows):,} are shown, there are more: --most", err=True)


def json_line(value: Any) -> str:
    """A value as one line of JSON."""
    return msgspec.json.encode(value, enc_hook=str).decode()


def _text(value: Any) -> str:
    """A value on one line, which can do nothing to the terminal."""
    text = "-" if value is None else str(value)
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def _cell(text: str, width: int, to_the_right: bool) -> str:
    text = text if len(text) <= width else text[: width - 1] + "…"
    # One long text is no reason to fill up all the others.
    width = min(width, WIDEST)
    return text.rjust(width) if to_the_right else text.ljust(width)


def _fitted(widths: Sequence[int], room: int) -> list[int]:
    """Widths that fit on a line: the widest columns lose, none more than to `NARROW`."""
    fitted = list(widths)
    while sum(fitted) + len(GAP) * (len(fitted) - 1) > room and max(fitted, default=0) > NARROW:
        fitted[fitted.index(max(fitted))] -= 1
    return fitted


@contextmanager
def store_url(context: typer.Context) -> Generator[str]:
    """The URL of the store: from the settings, or of the embedded server."""
    # Many a question needs no store, whose client takes longer to import than an answer.
    from waystation.core.store.settings import StoreSettings

    settings = loaded_only(context, {"store": StoreSettings})
    if (url := settings[StoreSettings].url) is not None:
        # Plain text: Spark and the options of data sources take no subclass of it.
        yield str(url)
        return
    with embedded.shared() as server:
        yield server.url


_BULLMQ = ("bullmq", "prefix")
_ROUTING = ("routing", "namespace")
_FILES = ("files", "namespace")


def prefixes(context: typer.Context) -> str:
    """The prefixes that the settings name, as the option `prefix` of `waystation.events`."""
    # Read without their sections, which import workers: that takes longer than many an answer.
    file = invocation.of(context).config
    named = [(Product.BULLMQ.value, each) for each in bullmq_prefixes(context).every]
    named += [(Product.ROUTING.value, text_of(_ROUTING, file) or "")]
    named += [(Product.FILES.value, text_of(_FILES, file) or _prefix_of_files(file))]
    return ",".join(f"{product}={prefix}" for product, prefix in named if prefix)


def _prefix_of_files(file: Path | None) -> str:
    if not is_set(("files", "worker", "queues"), file):
        return ""
    # Only with queues that have keys of their own are the sections needed.
    from waystation.files.settings import FilesSettings, layout

    return layout(load({"files": FilesSettings}, file, others=True)[FilesSettings]).prefix


def bullmq_prefixes(context: typer.Context) -> Prefixes:
    """The prefixes of BullMQ's keys: that of the workers, then the others that are followed."""
    first = text_of(_BULLMQ, invocation.of(context).config) or PREFIX
    every = (first, *pipeline_settings(context).prefixes)
    if len(every) > 1:
        try:
            check_several(every)
        except InvalidOption as error:
            raise InvalidSetting(f"pipeline.prefixes and bullmq.prefix: {error}") from None
    return Prefixes(every)
