"""What every command of `waystation routing` starts from: the settings, and the queue they name."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

import msgspec
import typer

from waystation.core.app.commands import on_store
from waystation.core.settings.load import Settings
from waystation.routing import Queue

T = TypeVar("T")


class CliContext(msgspec.Struct, frozen=True):
    """What the options before a verb say."""

    settings: Settings
    namespace: str


def on_the_queue(context: typer.Context, step: Callable[[Queue], Coroutine[Any, Any, T]]) -> T:
    """Take one step on the queue."""
    given = cast(CliContext, context.obj)
    return on_store(given.settings, lambda store: step(Queue(store, prefix=given.namespace)))
