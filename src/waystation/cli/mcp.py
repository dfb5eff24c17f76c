"""`waystation mcp`: queues and history for assistants, over the Model Context Protocol."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def mcp(
    context: typer.Context,
    role: Annotated[
        Literal["viewer", "operator"],
        typer.Option(help="viewer only looks; operator may also retry, promote and remove jobs."),
    ] = "viewer",
) -> None:
    """Serve tools for an assistant on stdin and stdout, until stdin ends.

    Queues, why, failures, search of live and past jobs, and SQL over the history.
    """
    # Imported here, so that help does not load what it does not need.
    import asyncio

    from waystation.cli.places import places_of
    from waystation.console.options import ConsoleOptions
    from waystation.console.settings import prefixes_of
    from waystation.core.app import compose, imports
    from waystation.core.app.invocation import loaded
    from waystation.core.app.settings import StoreSettings, TelemetrySettings
    from waystation.core.operators.operators import Role
    from waystation.pipeline.settings import PipelineSettings

    imports.load("waystation.console.assistants", extra="mcp", purpose="waystation mcp")
    from waystation.console.assistants import Access, serve

    settings = loaded(context)
    places = places_of(settings)
    options = ConsoleOptions(
        prefixes=prefixes_of(settings),
        namespaces=(places.routing,),
        layouts=(places.files,),
        history=str(settings[PipelineSettings].history),
    )
    compose.log_to_stderr(settings[TelemetrySettings])

    async def run() -> None:
        access = Access(
            lambda: compose.store(settings[StoreSettings]), options, places, role=Role(role)
        )
        await serve(access)

    asyncio.run(run())
