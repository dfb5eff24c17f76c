"""`waystation room key`: keys of operators."""

from typing import Annotated

import typer

from waystation.core.clock import SystemClock
from waystation.core.operators.operators import Operators
from waystation.core.operators.roles import Role
from waystation.core.store.connection import Store
from waystation.waitingroom.commands.reach import in_the_store, note


def key(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Who it is for.")],
    role: Annotated[Role, typer.Option(help="What it allows.")] = Role.OPERATOR,
    room: Annotated[list[str] | None, typer.Option(help="Only this room.")] = None,
    days: Annotated[float, typer.Option(help="Days until it expires.")] = 90,
) -> None:
    """Make a key for an operator or a connector; it is shown once."""

    async def make(store: Store) -> str:
        made = await Operators(store, SystemClock()).issue(name, role, queues=room, days=days)
        after = {"name": name, "role": role.value, "queues": room or []}
        await note(store, "issue-key", after=after)
        return made

    typer.echo(in_the_store(context, make))
