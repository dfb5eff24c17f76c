"""`waystation queues`: every queue and room of a store, with depth and rates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from waystation.core.app.commands import AsJson, list_rows, on_store

if TYPE_CHECKING:
    from waystation.console.measures import Row
    from waystation.core.store.connection import Store

app = typer.Typer(add_completion=False, rich_markup_mode=None)

HEAD = (
    "product", "name", "waiting", "active", "delayed", "failed", "workers", "oldest", "in/s",
    "out/s", "",
)  # fmt: skip


@app.command()
def queues(
    context: typer.Context,
    over: Annotated[
        float, typer.Option(min=0, help="Seconds to measure rates over; 0 leaves them out.")
    ] = 1.0,
    as_json: AsJson = False,
) -> None:
    """Print every queue and room that the store has, with what waits and how fast it moves."""
    rows, place, forbidden = _measured(context, over)
    if forbidden:
        keys = ", ".join(forbidden)
        typer.echo(f"left out: {keys}, which this user of the store may not read", err=True)
    if as_json:
        import msgspec

        typer.echo(msgspec.json.encode(rows).decode())
        return
    shown = [cells(row) for row in rows]
    list_rows([HEAD, *shown] if shown else [], none=f"there are no queues at {place}")


def cells(row: Row) -> tuple[str, ...]:
    """A queue as a line of a table."""
    return (
        row.product,
        row.name,
        f"{row.ready:,}",
        f"{row.active:,}",
        f"{row.delayed:,}",
        f"{row.failed:,}",
        "" if row.workers is None else f"{row.workers:,}",
        f"{row.oldest_s:,.0f} s" if row.oldest_s else "",
        f"{row.added_per_s:,.1f}",
        f"{row.completed_per_s:,.1f}",
        "paused" if row.paused else "",
    )


def _measured(context: typer.Context, over: float) -> tuple[list[Row], str, list[str]]:
    # Imported here, so that help does not load what it does not need.
    import asyncio

    from waystation.cli.places import places_of
    from waystation.console.measures import Live
    from waystation.core.app.invocation import loaded

    settings = loaded(context)

    async def measure(store: Store) -> tuple[list[Row], str, list[str]]:
        live = Live(store, places_of(settings))
        rows = await live.rows()
        if over and rows:
            await asyncio.sleep(over)
            rows = await live.rows()
        return rows, str(store.address), live.forbidden

    return on_store(settings, measure)
