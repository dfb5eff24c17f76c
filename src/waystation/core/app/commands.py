"""What every command shares: its usual options, a step on the store, lists as columns of text."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from waystation.core.settings.load import Settings
    from waystation.core.store.connection import Store

T = TypeVar("T")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def on_store(settings: Settings, step: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
    """Take a step on the store that the settings name."""
    # These take long to load, and help needs none of them.
    import asyncio

    from waystation.core.app import compose
    from waystation.core.app.settings import StoreSettings

    async def run() -> T:
        async with compose.store(settings[StoreSettings]) as store:
            return await step(store)

    return asyncio.run(run())


def list_rows(
    rows: Sequence[Sequence[str]],
    *,
    none: str,
    head: Sequence[str] | None = None,
    most: int | None = None,
) -> None:
    """Print a line for each row; when there is none, `none` goes to stderr.

    Of more than `most` rows so many are printed, and stderr says that there are more.

    `head` has the headings of the columns, for people: programs that read the lines get none.
    """
    if most is not None and len(rows) > most:
        rows = rows[:most]
        typer.echo(f"only {most:,} are shown, there are more: --count", err=True)
    if not rows:
        typer.echo(none, err=True)
    elif head and sys.stdout.isatty():
        rows = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())
