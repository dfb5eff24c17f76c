"""`waystation room key` and `second-factor`: operators and their keys."""

from typing import Annotated

import typer

from waystation.core.clock import SystemClock
from waystation.core.errors import NotFound
from waystation.core.operators.operators import Operators
from waystation.core.operators.roles import Role
from waystation.core.operators.second_factor import Enrolled
from waystation.core.store.connection import Store
from waystation.waitingroom.commands.reach import in_the_store, note

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The name that the key was made for.")]


def key(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Who it is for.")],
    role: Annotated[Role, typer.Option(help="What it allows.")] = Role.OPERATOR,
    room: Annotated[list[str] | None, typer.Option(help="Only this room.")] = None,
    days: Annotated[float, typer.Option(help="Days until it expires.")] = 90,
) -> None:
    """Make a key for an operator or a connector; it is shown once."""

    async def make(store: Store) -> str:
        made = await _operators(store).issue(name, role, queues=room, days=days)
        after = {"name": name, "role": role.value, "queues": room or []}
        await note(store, "issue-key", after=after)
        return made

    typer.echo(in_the_store(context, make))


@app.callback()
def second_factor() -> None:
    """Require a code from an authenticator app of an operator, too."""


@app.command()
def add(context: typer.Context, name: Name) -> None:
    """Require a code from now on; the secret for the authenticator app is shown this once."""

    async def put(store: Store) -> Enrolled:
        enrolled = await _operators(store).enrol(name)
        await note(store, "add-second-factor", after=name)
        return enrolled

    enrolled = in_the_store(context, put)
    typer.echo(f"secret  {enrolled.secret}")
    typer.echo(f"uri     {enrolled.uri}")


@app.command()
def remove(context: typer.Context, name: Name) -> None:
    """Require no code any more, for somebody who lost their authenticator."""

    async def take(store: Store) -> None:
        if not await _operators(store).factors.remove(name):
            raise NotFound(f"{name} has no second factor")
        await note(store, "remove-second-factor", before=name)

    in_the_store(context, take)
    typer.echo(f"{name} needs no code any more")


def _operators(store: Store) -> Operators:
    return Operators(store, SystemClock())
