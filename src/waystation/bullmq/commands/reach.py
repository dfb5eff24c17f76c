"""Access of `waystation bullmq` to its queue."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import msgspec
import typer

from waystation.core.app.commands import on_store
from waystation.core.errors import NotFound

if TYPE_CHECKING:
    from waystation.bullmq import PayloadOptions, Queue
    from waystation.core.settings.load import Settings
    from waystation.core.store.connection import Store

T = TypeVar("T")

_LOOK_S = 2.0
"""How long the name that was meant is looked for."""

OfQueue = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.")]
InAdvance = Annotated[
    bool, typer.Option("--in-advance", help="Even if the queue has never had a job.")
]


class CliContext(msgspec.Struct, frozen=True):
    """The options before the subcommand."""

    settings: Settings
    prefix: str


def agreed(question: str, yes: bool) -> None:
    """Go on only if whoever runs the command says so."""
    if not yes:
        typer.confirm(question, abort=True)


def agreed_on(context: typer.Context, name: str, question: str, yes: bool) -> None:
    """As `agreed`, about a queue that is there: nobody is asked about a mistyped name."""
    if not yes:
        check_known(context, name)
        agreed(question, yes)


def on(context: typer.Context, name: str, step: Callable[[Queue], Coroutine[Any, Any, T]]) -> T:
    """Use a queue."""
    return _run(context, name, lambda _, queue: step(queue))


def on_sealed(
    context: typer.Context, name: str, step: Callable[[Queue], Coroutine[Any, Any, T]]
) -> T:
    """Use a queue whose payloads are sealed as the settings say."""
    from waystation.bullmq.settings import BullmqSettings

    payloads = cast(CliContext, context.obj).settings[BullmqSettings].payloads.options()
    return _run(context, name, lambda _, queue: step(queue), payloads)


def on_known(
    context: typer.Context, name: str, step: Callable[[Queue], Coroutine[Any, Any, T]]
) -> T:
    """Use a queue that somebody has made; nobody has made one of a mistyped name."""

    async def checked(store: Store, queue: Queue) -> T:
        if missing := await _missing(store, context, name):
            raise NotFound(missing)
        return await step(queue)

    return _run(context, name, checked)


def on_expected(
    context: typer.Context, name: str, step: Callable[[Queue], Coroutine[Any, Any, T]]
) -> T:
    """Use a queue that somebody may make later; says so when it is not there yet."""

    async def noted(store: Store, queue: Queue) -> T:
        if missing := await _missing(store, context, name):
            typer.echo(f"{missing} Waiting for its first job.", err=True)
        return await step(queue)

    return _run(context, name, noted)


def check_known(context: typer.Context, name: str) -> None:
    """Refuse a queue that nobody has made, before anything is asked."""

    async def nothing(queue: Queue) -> None:
        return None

    on_known(context, name, nothing)


async def _missing(store: Store, context: typer.Context, name: str) -> str:
    """A sentence about a queue that is not there, with the name that was meant; else nothing."""
    import asyncio

    from waystation.bullmq.redis.keys import QueueKeys
    from waystation.bullmq.redis.scanning import queue_names
    from waystation.core.options import nearest

    keys = QueueKeys(name, prefix=cast(CliContext, context.obj).prefix)
    if await store.ask("EXISTS", keys.id, keys.events, keys.meta):
        return ""
    near = None
    # All keys are looked at, and of very many of them only some.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LOOK_S):
            near = nearest(name, await queue_names(store, keys.prefix))
    if near:
        return f"there is no queue {keys.qualified}; did you mean {near}?"
    return f"there is no queue {keys.qualified}; are its name and the store {store.address} right?"


def _run(
    context: typer.Context,
    name: str,
    step: Callable[[Store, Queue], Coroutine[Any, Any, T]],
    payloads: PayloadOptions | None = None,
) -> T:
    from waystation.bullmq import Queue

    given = cast(CliContext, context.obj)
    return on_store(
        given.settings,
        lambda store: step(store, Queue(name, store, prefix=given.prefix, payloads=payloads)),
    )
