"""What commands of the pipeline share: options, settings, and rows on a terminal."""

import shutil
import sys
from collections.abc import Sequence
from numbers import Number
from typing import Annotated, Any

import msgspec
import typer

from waystation.core.app.invocation import loaded_only
from waystation.pipeline.ask.answers import Answer
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
