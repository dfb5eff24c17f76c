"""`waystation room webhooks`: programs that receive the events of a room."""

from typing import Annotated

import typer

from waystation.core.app.commands import AsJson
from waystation.core.app.invocation import loaded
from waystation.core.http.addresses import networks
from waystation.core.webhooks import delivery as outside
from waystation.core.webhooks.dispatch import Hook, State
from waystation.waitingroom.commands.reach import Id, in_the_room, noted_in_the_room, print_json
from waystation.waitingroom.http.webhooks import Webhooks
from waystation.waitingroom.room import Room
from waystation.waitingroom.settings import RoomSettings

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)


@app.callback()
def webhooks() -> None:
    """Send the events of a room to other programs."""


@app.command()
def add(
    context: typer.Context,
    id: Id,
    url: Annotated[str, typer.Argument(help="Where deliveries go.")],
    event: Annotated[
        list[str] | None, typer.Option(help="An event to send, such as admitted; default: all.")
    ] = None,
) -> None:
    """Add a webhook; the secret that deliveries are signed with is shown this once."""
    inside = networks(loaded(context)[RoomSettings].webhook_networks, "webhook_networks")
    address = outside.checked(url, inside)

    async def put(room: Room) -> Hook:
        await room.state()
        return await Webhooks(room).add(address, event or [])

    def noted(made: Hook) -> dict[str, object]:
        return {"id": made.id, "url": made.url, "events": made.events}

    hook = noted_in_the_room(context, id, "add-webhook", put, after=noted)
    typer.echo(f"id      {hook.id}")
    typer.echo(f"events  {', '.join(hook.events)}")
    typer.echo(f"secret  {hook.secret}")


@app.command("list")
def list_hooks(context: typer.Context, id: Id, as_json: AsJson = False) -> None:
    """Print the webhooks and their state; secrets are not shown again."""

    async def ask(room: Room) -> list[tuple[Hook, State]]:
        await room.state()
        return await Webhooks(room).every()

    found = in_the_room(context, id, ask)
    if as_json:
        shown = [
            {
                "id": hook.id,
                "url": hook.url,
                "events": hook.events,
                "delivered": state.delivered,
                "failures": state.failures,
                "last_error": state.last_error,
            }
            for hook, state in found
        ]
        print_json(shown)
        return
    for hook, state in found:
        wrong = f", {state.failures:,} failures: {state.last_error}" if state.failures else ""
        typer.echo(f"{hook.id}  {hook.url}  {state.delivered:,} delivered{wrong}")


@app.command()
def remove(
    context: typer.Context,
    id: Id,
    hook: Annotated[str, typer.Argument(help="The id that `add` printed.")],
) -> None:
    """Remove a webhook."""
    noted_in_the_room(
        context, id, "remove-webhook", lambda room: Webhooks(room).remove(hook), before=hook
    )
    typer.echo("removed")
