"""`waystation room codes`: access codes of a room."""

import time
from typing import Annotated

import typer

from waystation.core.app.commands import AsJson
from waystation.core.errors import InvalidOption, NotFound
from waystation.waitingroom.commands.reach import Id, in_the_room, noted_in_the_room, print_json
from waystation.waitingroom.http.bodies import rfc3339
from waystation.waitingroom.operating.codes import Batch, Codes
from waystation.waitingroom.room import Room
from waystation.waitingroom.visitor import Lane

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="BATCH", help="The name of the batch.")]


@app.callback()
def codes() -> None:
    """Make access codes, list them, revoke them."""


@app.command()
def make(
    context: typer.Context,
    id: Id,
    batch: Name,
    count: Annotated[int, typer.Option(help="How many.", min=1)] = 1,
    lane: Annotated[str, typer.Option(help="normal, elevated, vip or premium.")] = "normal",
    uses: Annotated[int, typer.Option(help="Visitors that each lets in.", min=1)] = 1,
    minutes: Annotated[
        float, typer.Option(help="How long they are valid; 0 until they are revoked.", min=0)
    ] = 0,
) -> None:
    """Make codes and print them, one to a line; they are shown this once."""
    wanted = _lane(lane)
    expires_s = round(time.time() + minutes * 60) if minutes else 0
    made = noted_in_the_room(
        context,
        id,
        "make-codes",
        lambda room: Codes(room).make(batch, count, lane=wanted, uses=uses, expires_s=expires_s),
        after=lambda _: {"batch": batch, "count": count, "lane": int(wanted), "uses": uses},
    )
    for code in made:
        typer.echo(code)


@app.command("list")
def list_batches(context: typer.Context, id: Id, as_json: AsJson = False) -> None:
    """Print the batches, and how many visitors used their codes."""

    async def ask(room: Room) -> list[Batch]:
        await room.state()
        return await Codes(room).batches()

    found = in_the_room(context, id, ask)
    if as_json:
        print_json(found)
        return
    for each in found:
        until = f"until {rfc3339(each.expires_s * 1000)}" if each.expires_s else "for good"
        used = f"{each.used:,} of {each.codes * each.uses:,} used"
        typer.echo(f"{each.batch:<24} {each.lane.name.lower():<9} {used}, {until}")


@app.command()
def revoke(context: typer.Context, id: Id, batch: Name) -> None:
    """Revoke the codes of a batch."""

    async def take(room: Room) -> int:
        gone = await Codes(room).revoke(batch)
        if not gone:
            raise NotFound(f"there is no batch {batch} in {id}")
        return gone

    gone = noted_in_the_room(context, id, "revoke-codes", take, before=batch)
    typer.echo(f"{gone:,} codes open nothing any more")


def _lane(name: str) -> Lane:
    try:
        return Lane[name.upper()]
    except KeyError:
        names = ", ".join(each.name.lower() for each in Lane)
        raise InvalidOption(f"lane must be one of {names}, got {name!r}") from None
