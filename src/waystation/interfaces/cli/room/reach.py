"""How the commands of `waystation room` reach their room."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, TypeVar

import typer

from waystation.core.errors import InvalidOption
from waystation.interfaces import compose
from waystation.interfaces.cli.loading import loaded
from waystation.queues.waitingroom.room import Room

T = TypeVar("T")

Id = Annotated[str, typer.Argument(help="The room; braces keep it on one node of a cluster.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def in_the_room(
    context: typer.Context, id: str, step: Callable[[Room], Coroutine[Any, Any, T]]
) -> T:
    """Connect, take the step, and give back what came of it."""
    if not id:
        raise InvalidOption("a room needs a name, got none")
    settings = loaded(context).settings

    async def run() -> T:
        async with compose.store(settings) as store:
            return await step(Room(store, id))

    return asyncio.run(run())
