"""Lists as columns of text."""

from collections.abc import Sequence

import typer


def list_rows(rows: Sequence[Sequence[str]], *, none: str) -> None:
    """Print a line for each row; when there is none, `none` goes to stderr."""
    if not rows:
        typer.echo(none, err=True)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())
