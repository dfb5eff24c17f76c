"""`waystation room webhooks`: programs that receive the events of a room."""

from typing import Annotated

import msgspec
import typer

from waystation.core.app.commands import AsJson
from waystation.core.app.loading import loaded
from waystation.core.http.addresses import networks
from waystation.core.webhooks import delivery as outside
from waystation.core.webhooks.dispatch import Hook, State
from waystation.waitingroom.commands.reach import Id, Noted, in_the_room, noted_in_the_room
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

    async def put(room: Room) -> Noted[Hook]:
        await room.state()
        made = await Webhooks(room).add(address, event or [])
        after = {"id": made.id, "url": made.url, "events": made.events}
        return Noted(result=made, after=after)

    hook = noted_in_the_room(context, id, "add-webhook", put)
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
        typer.echo(msgspec.json.encode(shown).decode())
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

    async def put(room: Room) -> Noted[None]:
        await Webhooks(room).remove(hook)
        return Noted(result=None, before=hook)

    noted_in_the_room(context, id, "remove-webhook", put)
    typer.echo("removed")
