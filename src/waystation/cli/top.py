"""`waystation top`: all queues and rooms in a terminal, live."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from waystation.core.settings.load import Settings

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def top(
    context: typer.Context,
    every: Annotated[float, typer.Option(min=0.2, help="Seconds between measurements.")] = 2.0,
) -> None:
    """Watch all queues and rooms: what waits, what runs, how fast it moves, and why it does not.

    Enter says why the chosen queue does or does not move; s sorts by another column; q ends it.
    """
    # Imported here, so that help does not load what it does not need.
    import asyncio

    from waystation.core.app import imports
    from waystation.core.app.invocation import loaded

    imports.load("textual", extra="top", purpose="waystation top")
    asyncio.run(_watch(loaded(context), every))


async def _watch(settings: Settings, every: float) -> None:
    from waystation.cli.places import places_of
    from waystation.console.measures import Live
    from waystation.console.top import Top
    from waystation.console.why import why
    from waystation.core.app import compose
    from waystation.core.app.settings import StoreSettings

    places = places_of(settings)
    async with compose.store(settings[StoreSettings]) as store:

        async def explain(product: str, name: str) -> str:
            answers = await why(store, name, product=product, places=places)
            return " ".join(each.sentence for each in answers)

        live = Live(store, places)
        await Top(live.rows, explain, every_s=every, title=str(store.address)).run_async()
