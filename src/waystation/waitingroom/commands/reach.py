"""Access of `waystation room` to its room, with an entry in the audit log."""

import getpass
import os
import socket
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, TypeVar

import msgspec
import typer

from waystation.core.app.commands import on_store
from waystation.core.app.invocation import loaded
from waystation.core.clock import SystemClock
from waystation.core.errors import InvalidOption
from waystation.core.operators.operators import Operator, Operators
from waystation.core.operators.roles import Role
from waystation.core.store.connection import Store
from waystation.waitingroom.http.admin_bodies import what_changed
from waystation.waitingroom.redis.keys import name_of, room_id
from waystation.waitingroom.room import Room
from waystation.waitingroom.rooms import is_name

T = TypeVar("T")

Id = Annotated[str, typer.Argument(help="The room's name.")]


def in_the_store(context: typer.Context, step: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
    """Connect, take the step, and return its result."""
    return on_store(loaded(context), step)


def in_the_room(
    context: typer.Context, id: str, step: Callable[[Room], Coroutine[Any, Any, T]]
) -> T:
    """Read from a room."""
    require_name(id)
    return in_the_store(context, lambda store: step(Room(id, store)))


def noted_in_the_room(
    context: typer.Context,
    id: str,
    action: str,
    step: Callable[[Room], Coroutine[Any, Any, T]],
    *,
    before: Any = None,
    after: Callable[[T], Any] = lambda _: None,
) -> T:
    """Do something to a room, and note in the audit log that a shell did it.

    `after` says what to note of the step's result.
    """
    require_name(id)

    async def take(store: Store) -> T:
        result = await step(Room(id, store))
        await note(store, action, id, before=before, after=after(result))
        return result

    return in_the_store(context, take)


def change_the_room(
    context: typer.Context, id: str, action: str, step: Callable[[Room], Coroutine[Any, Any, T]]
) -> T:
    """Change a room's options, and note the old ones in the audit log."""
    require_name(id)

    async def take(store: Store) -> T:
        room = Room(id, store)
        before = await room.state()
        result = await step(room)
        was, now = what_changed(before, await room.state())
        await note(store, action, id, before=was, after=now)
        return result

    return in_the_store(context, take)


def print_json(value: object) -> None:
    """Print a value as JSON."""
    typer.echo(msgspec.json.encode(value).decode())


async def note(
    store: Store, action: str, id: str = "", *, before: Any = None, after: Any = None
) -> None:
    """Note in the audit log what somebody with access to the store did without a key."""
    name = f"{_user()} in a shell on {socket.gethostname()}"
    who = Operator(name=name, role=Role.ADMIN)
    operators = Operators(store, SystemClock())
    await operators.note(who, action, name_of(id), before=before, after=after)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number that nobody gave a name
        return f"user {os.getuid()}"


def require_name(id: str) -> None:
    """Refuse what cannot be the name of a room."""
    if not is_name(name_of(id)) or id not in (name_of(id), room_id(id)):
        raise InvalidOption(f"a room's name must be 1 to 64 of A-Z a-z 0-9 _ . -, got {id!r}")
