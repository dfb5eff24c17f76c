"""Lists as columns of text."""

import sys
from collections.abc import Sequence

import typer


def list_rows(
    rows: Sequence[Sequence[str]], *, none: str, head: Sequence[str] | None = None
) -> None:
    """Print a line for each row; when there is none, `none` goes to stderr.

    `head` has the headings of the columns, for people: programs that read the lines get none.
    """
    if not rows:
        typer.echo(none, err=True)
    elif head and sys.stdout.isatty():
        rows = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())
