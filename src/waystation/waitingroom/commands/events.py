"""`waystation room events`: scheduled events of a room."""

import secrets
from datetime import datetime
from typing import Annotated

import msgspec
import typer

from waystation.core.app.commands import AsJson
from waystation.waitingroom.commands.reach import Id, in_the_room, noted_in_the_room, print_json
from waystation.waitingroom.http.admin_bodies import named
from waystation.waitingroom.http.bodies import rfc3339
from waystation.waitingroom.operating.lottery import Lottery
from waystation.waitingroom.operating.schedule import CURRENT, Schedule, ScheduledEvent
from waystation.waitingroom.room import Room
from waystation.waitingroom.visitor import new_id

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)


@app.callback()
def events() -> None:
    """Plan events that open a room, change it while they last, and end."""


@app.command()
def plan(
    context: typer.Context,
    id: Id,
    start: Annotated[datetime, typer.Argument(help="For example 2030-01-01T10:00")],
    end: Annotated[datetime, typer.Argument(help="When it ends and the room is as before.")],
    name: Annotated[str, typer.Option(help="What operators call it.")] = "",
    gather: Annotated[datetime | None, typer.Option(help="From when people may gather.")] = None,
    by_lot: Annotated[bool, typer.Option(help="Draw lots among those who gathered.")] = False,
    witness: Annotated[
        str, typer.Option(help="SHA-256 of a second party's secret that the draw waits for.")
    ] = "",
    rate: Annotated[
        float | None, typer.Option(help="People who come in per second while it lasts.", min=0)
    ] = None,
    seats: Annotated[
        int | None, typer.Option(help="People inside at most while it lasts.", min=0)
    ] = None,
) -> None:
    """Plan an event and print its id; no two may overlap."""
    asked = {"admission_rate": rate, "max_active": seats}
    settings = {field: value for field, value in asked.items() if value is not None}

    async def put(room: Room) -> ScheduledEvent:
        options = (await room.state()).options
        event = ScheduledEvent(
            id=new_id(secrets.SystemRandom()),
            name=name,
            starts_ms=_millis(start),
            ends_ms=_millis(end),
            gathers_ms=None if gather is None else _millis(gather),
            by_lot=by_lot,
            witness=witness,
            changes=named(options, settings),
        )
        return await Schedule(room).plan(event)

    planned = noted_in_the_room(context, id, "plan-event", put, after=msgspec.to_builtins)
    typer.echo(planned.id)
    if planned.commitment:
        typer.echo(f"commitment {planned.commitment}", err=True)


@app.command("list")
def list_events(context: typer.Context, id: Id, as_json: AsJson = False) -> None:
    """Print what is planned, the next first."""

    async def ask(room: Room) -> tuple[list[ScheduledEvent], str]:
        return await Schedule(room).planned(), (await room.state()).fields.get(CURRENT, "")

    found, current = in_the_room(context, id, ask)
    if as_json:
        print_json([{**msgspec.to_builtins(each), "on": each.id == current} for each in found])
        return
    for each in found:
        gathers = "" if each.gathers_ms is None else f", gathers from {rfc3339(each.gathers_ms)}"
        lots = f", by lot (commitment {each.commitment})" if each.by_lot else ""
        on = ", on now" if each.id == current else ""
        when = f"{rfc3339(each.starts_ms)} to {rfc3339(each.ends_ms)}"
        typer.echo(f"{each.id}  {when}{gathers}{lots}{on}  {each.name}".rstrip())


@app.command()
def reveal(
    context: typer.Context,
    id: Id,
    secret: Annotated[str, typer.Argument(help="The witness's secret, 64 hex digits.")],
) -> None:
    """Reveal the secret of a draw's witness, once the list of those who take part is closed."""
    mixed = noted_in_the_room(context, id, "reveal", lambda room: Lottery(room).reveal(secret))
    typer.echo("mixed into the draw" if mixed else "it was known already")


@app.command()
def cancel(
    context: typer.Context,
    id: Id,
    event: Annotated[str, typer.Argument(help="The id that `plan` printed.")],
) -> None:
    """Cancel a planned event, or end the one that is running."""
    noted_in_the_room(
        context, id, "cancel-event", lambda room: Schedule(room).cancel(event), before=event
    )
    typer.echo("called off")


def _millis(at: datetime) -> int:
    return round(at.timestamp() * 1000)
