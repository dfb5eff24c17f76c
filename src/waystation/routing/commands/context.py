"""What every command of `waystation routing` starts from: the settings, and the queue they name."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, TypeVar, cast

import msgspec
import typer

from waystation.core.app import compose
from waystation.core.app.settings import StoreSettings
from waystation.core.settings.load import Settings
from waystation.routing import Queue

T = TypeVar("T")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class Given(msgspec.Struct, frozen=True):
    """What the options before a verb say."""

    settings: Settings
    namespace: str


def on_the_queue(context: typer.Context, step: Callable[[Queue], Coroutine[Any, Any, T]]) -> T:
    """Take one step on the queue."""
    given = cast(Given, context.obj)

    async def run() -> T:
        async with compose.store(given.settings[StoreSettings]) as store:
            return await step(Queue(store, prefix=given.namespace))

    return asyncio.run(run())
