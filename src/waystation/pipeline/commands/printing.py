"""Rows of an answer on a terminal: as a table, or as JSON lines."""

from numbers import Number
from typing import Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from waystation.pipeline.ask.engine import Answer


def print_answer(answer: Answer, *, as_json: bool) -> None:
    """Print the rows of an answer."""
    names, rows = answer
    if as_json:
        for row in rows:
            typer.echo(json_line(dict(zip(names, row, strict=True))))
        return
    table = Table(box=None, pad_edge=False)
    for n, name in enumerate(names):
        counted = all(isinstance(row[n], Number | None) for row in rows)
        table.add_column(name, overflow="fold", justify="right" if counted else "left")
    for row in rows:
        table.add_row(*(Text("-" if value is None else str(value)) for value in row))
    Console().print(table)


def json_line(value: Any) -> str:
    """A value as one line of JSON."""
    return msgspec.json.encode(value, enc_hook=str).decode()
