"""`waystation room`: open waiting rooms and control them."""

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, cast

import msgspec
import typer

from waystation.core.app.commands import AsJson
from waystation.core.clock import SystemClock
from waystation.core.errors import InvalidOption, NotFound
from waystation.core.operators.operators import Operators
from waystation.core.operators.roles import Role
from waystation.core.store.connection import Store
from waystation.waitingroom.commands import codes, events, serve, webhooks
from waystation.waitingroom.commands.reach import (
    Id,
    change_the_room,
    in_the_room,
    in_the_store,
    note,
    noted_in_the_room,
    print_json,
    require_name,
)
from waystation.waitingroom.http.admin_bodies import merged
from waystation.waitingroom.operating import lottery
from waystation.waitingroom.operating.alarms import AlarmOptions, Alarms, ringing_in
from waystation.waitingroom.operating.control import Control
from waystation.waitingroom.operating.following import Following, FollowOptions
from waystation.waitingroom.operating.lottery import Lottery, Proof
from waystation.waitingroom.options import RoomOptions, Status, WaitingPage
from waystation.waitingroom.redis.keys import RoomsKeys, name_of
from waystation.waitingroom.room import Room
from waystation.waitingroom.rooms import Rooms
from waystation.waitingroom.running import Admission
from waystation.waitingroom.state import RoomState


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


EXAMPLES = """\b
Examples:
  waystation room open tickets --rate 10 --seats 1000
  waystation room status tickets
  waystation room rate tickets 25 --ramp 120
  waystation room follow tickets https://shop.example/health --target 0.5 --most 25
  waystation room pause tickets
  waystation room codes make tickets press --count 50 --lane vip
"""

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, no_args_is_help=True, epilog=EXAMPLES
)
app.command()(serve.serve)
app.command()(key)
app.add_typer(codes.app, name="codes")
app.add_typer(events.app, name="events")
app.add_typer(webhooks.app, name="webhooks")


@app.callback()
def room(context: typer.Context) -> None:
    """Open waiting rooms and control them."""


@app.command("open")
def open_room(
    context: typer.Context,
    id: Id,
    rate: Annotated[
        float | None, typer.Option(help="Visitors admitted per second; 10 for a new room.")
    ] = None,
    seats: Annotated[
        int | None, typer.Option(help="Visitors inside, at most; 1000 for a new room.")
    ] = None,
    line: Annotated[
        int | None,
        typer.Option(help="Waiting visitors, at most; 0 for any; 50000 for a new room."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="What visitors see.")] = None,
    waiting_page: Annotated[
        WaitingPage | None,
        typer.Option(help="Who gets to see the waiting page; automatic for a new room."),
    ] = None,
    return_host: Annotated[
        list[str] | None,
        typer.Option(help="A host of the site, such as shop.example, if the room has its own."),
    ] = None,
) -> None:
    """Open a room; of one that is open, change the given options alone."""
    given = {
        "name": name,
        "admission_rate": rate,
        "max_active": seats,
        "max_queue_size": line,
        "waiting_page": waiting_page,
        "return_hosts": return_host,
    }
    asked = {option: value for option, value in given.items() if value is not None}
    require_name(id)

    async def put(store: Store) -> int:
        room = Room(id, store)
        before = await _settings(room)
        options, own = merged(RoomOptions.from_fields(before or {}), asked)
        if before is None:
            version = await room.open(options, settings=own)
        else:
            fields = options.to_fields()
            changed = {option: fields[option] for option in asked.keys() & fields.keys()}
            shut = options.status in (Status.CLOSED, Status.SOLD_OUT)
            if shut:
                changed |= {"status": Status.ACTIVE.value, "ending": ""}
            version = await room.store.write(changed | own, event="resumed" if shut else "changed")
            # Whoever made it may have died before it was on the list.
            await room.store.ask("SADD", RoomsKeys().every, room.queue_id)
        await note(store, "open", id, before=before, after=await _settings(room))
        return version

    typer.echo(f"{name_of(id)} is open, version {in_the_store(context, put)}")


@app.command("list")
def list_rooms(context: typer.Context, as_json: AsJson = False) -> None:
    """Print all rooms: status, waiting, inside and rate."""

    async def ask(store: Store) -> dict[str, RoomState]:
        return {room.name: state for room, state in await Rooms(store).states()}

    found = in_the_store(context, ask)
    if as_json:
        print_json(
            [
                {
                    "room": name,
                    "status": f"{seen.options.status}, {seen.phase}",
                    "waiting": seen.waiting,
                    "inside": seen.inside,
                    "seats": seen.options.max_active,
                    "rate": seen.rate,
                }
                for name, seen in found.items()
            ]
        )
        return
    for name, seen in found.items():
        inside = f"{seen.inside:,} of {seen.options.max_active:,} inside"
        state = f"{seen.options.status}, {seen.phase}"
        typer.echo(f"{name:<24} {state:<18} {seen.waiting:,} waiting, {inside}, {seen.rate:,g}/s")


@app.command()
def status(context: typer.Context, id: Id, as_json: AsJson = False) -> None:
    """Print the status of a room."""

    async def ask(room: Room) -> tuple[RoomState, dict[str, int]]:
        return await room.state(), await room.statistics()

    seen, hour = in_the_room(context, id, ask)
    shown = {
        "status": f"{seen.options.status}, {seen.phase}",
        "waiting": seen.waiting,
        "lanes": dict(zip(("normal", "elevated", "vip", "premium"), seen.lanes, strict=True)),
        "before the start": seen.early,
        "called": seen.called,
        "missed": seen.late,
        "inside": seen.inside,
        "seats": seen.options.max_active,
        "rate": seen.rate,
        "called per second": seen.flow,
        "follows": seen.fields.get("follow_said") or ("yes" if "follow" in seen.fields else "no"),
        "alarms": ", ".join(ringing_in(seen).values()) or "none",
        "model": seen.model.version,
        "return hosts": seen.fields.get("return_hosts", "").replace(",", ", ") or "none",
        "this hour": hour,
    }
    if as_json:
        print_json(shown)
        return
    for what, value in shown.items():
        typer.echo(f"{what:<18} {_shown(value)}")


@app.command()
def rate(
    context: typer.Context,
    id: Id,
    per_second: Annotated[float, typer.Argument(min=0)],
    ramp: Annotated[int, typer.Option(help="Seconds until it is reached.", min=0)] = 0,
) -> None:
    """Set how many visitors are admitted per second."""
    change_the_room(context, id, "rate", lambda room: Control(room).set_rate(per_second, ramp=ramp))
    typer.echo(f"{per_second:g} per second" + (f" in {ramp} s" if ramp else ""))


@app.command()
def follow(
    context: typer.Context,
    id: Id,
    url: Annotated[str, typer.Argument(help="The site's health page or metrics; empty to stop.")],
    series: Annotated[
        str, typer.Option(help='A metric such as queue_length{queue="mail"}; default: the time.')
    ] = "",
    target: Annotated[float, typer.Option(help="Seconds or value that are still fine.")] = 1.0,
    least: Annotated[float, typer.Option(help="Visitors per second, at least.")] = 0.1,
    most: Annotated[float, typer.Option(help="Visitors per second, at most.")] = 10,
) -> None:
    """Let the rate follow the site behind: down when it is slow, up again when it is well."""

    async def put(room: Room) -> int:
        if not url:
            return await Following(room).stop()
        options = FollowOptions(url=url, series=series, target=target, least=least, most=most)
        return await Following(room).start(options)

    change_the_room(context, id, "follow", put)
    typer.echo(f"{least:g} to {most:g} per second" if url else "the rate stays as it is")


@app.command()
def alarm(
    context: typer.Context,
    id: Id,
    waiting: Annotated[int, typer.Option(help="People in line.", min=0)] = 0,
    wait: Annotated[float, typer.Option(help="Minutes that the last waits.", min=0)] = 0,
    no_shows: Annotated[
        float, typer.Option(help="Share of those called who stay away.", min=0, max=0.99)
    ] = 0,
) -> None:
    """Raise an alarm beyond these limits, as an event for webhooks; without any, never."""
    limits = AlarmOptions(waiting=waiting, wait_minutes=wait, no_shows=no_shows)
    change_the_room(context, id, "alarms", lambda room: Alarms(room).set(limits))
    typer.echo("the limits are set" if waiting or wait or no_shows else "no alarm is raised")


@app.command()
def admit(context: typer.Context, id: Id, count: int) -> None:
    """Admit visitors at once, whatever the rate."""
    seen = noted_in_the_room(
        context,
        id,
        "admit",
        lambda room: Admission(room).admit_now(count),
        after=lambda seen: {"called": len(seen.called), "waiting": seen.waiting},
    )
    typer.echo(f"{len(seen.called):,} called in")


@app.command()
def tell(
    context: typer.Context,
    id: Id,
    text: Annotated[str, typer.Argument(help="Empty to take the message away.")] = "",
    language: Annotated[str, typer.Option()] = "en",
) -> None:
    """Show all waiting visitors a message."""
    texts = {language: text} if text else {}
    change_the_room(context, id, "message", lambda room: Control(room).show_message(texts))
    typer.echo("all waiting visitors see it" if text else "no message")


@app.command()
def schedule(
    context: typer.Context,
    id: Id,
    start: Annotated[datetime, typer.Argument(help="When it opens, for example 2030-01-01T10:00")],
    by_lot: Annotated[bool, typer.Option(help="Draw lots instead of first come.")] = False,
) -> None:
    """Let visitors gather before the room opens."""

    async def put(room: Room) -> str | None:
        # Committed to before anybody can join.
        commitment = await Lottery(room).announce() if by_lot else None
        await Control(room).schedule(round(start.timestamp() * 1000))
        return commitment

    commitment = change_the_room(context, id, "schedule", put)
    typer.echo(f"opens at {start.isoformat()}")
    if commitment:
        typer.echo(f"commitment {commitment}")


@app.command()
def draw(
    context: typer.Context,
    id: Id,
    beacon: Annotated[str, typer.Option(help="Something public that nobody knew before.")] = "",
) -> None:
    """Order those who gathered, and open the room."""
    drawn = change_the_room(context, id, "draw", lambda room: Lottery(room).draw(beacon=beacon))
    typer.echo(f"{drawn:,} drawn")


class _Written(msgspec.Struct, kw_only=True):
    """A draw as it is in a file."""

    proof: Proof
    drawn: list[str]


@app.command()
def proof(
    context: typer.Context,
    id: Id,
    file: Annotated[Path, typer.Argument(help="Where to write it.")],
) -> None:
    """Write the proof of the draw to a file."""

    async def ask(room: Room) -> tuple[Proof, list[str]]:
        draws = Lottery(room)
        ids: list[str] = []
        while page := await draws.drawn(len(ids)):
            ids += page
        return await draws.proof(), ids

    found, ids = in_the_room(context, id, ask)
    file.write_bytes(msgspec.json.encode(_Written(proof=found, drawn=ids)))
    typer.echo(f"{len(ids):,} ids in {file}")


@app.command()
def check(file: Path) -> None:
    """Draw again from a written proof, and say whether the order is the same."""
    try:
        kept = msgspec.json.decode(file.read_bytes(), type=_Written)
    except (OSError, msgspec.DecodeError) as error:
        raise InvalidOption(f"{file} must be a proof that was written here ({error})") from None
    lottery.verify(kept.proof, kept.drawn)
    typer.echo(f"{len(kept.drawn):,} drawn as the seed says")


def _steering(word: str, help: str, done: str) -> None:
    def command(context: typer.Context, id: Id) -> None:
        step = getattr(Control, word.replace("-", "_"))
        change_the_room(context, id, word, lambda room: step(Control(room)))
        typer.echo(done)

    app.command(word, help=help)(command)


_steering("pause", "Admit nobody; everybody keeps their place.", "paused")
_steering("resume", "Admit visitors again.", "resumed")
_steering("queue-all", "Make everybody wait, as an emergency.", "everybody waits")
_steering("drain", "Admit those who wait; nobody else can join.", "draining")


@app.command("shut")
def shut(
    context: typer.Context,
    id: Id,
    sold_out: Annotated[bool, typer.Option(help="Because nothing is left.")] = False,
    text: Annotated[str, typer.Option(help="What those in line read, in words of yours.")] = "",
    link: Annotated[str, typer.Option(help="Where they go on, an https address.")] = "",
    language: Annotated[str, typer.Option(help="The language of the text.")] = "en",
) -> None:
    """End the room: nobody joins or is admitted any more, and those in line read that."""

    async def put(room: Room) -> int:
        end = Control(room).sell_out if sold_out else Control(room).close
        return await end(text={language: text} if text else None, link=link)

    change_the_room(context, id, "sell-out" if sold_out else "close", put)
    typer.echo("sold out" if sold_out else "closed")


async def _settings(room: Room) -> dict[str, str] | None:
    try:
        return (await room.state()).fields
    except NotFound:
        return None


def _shown(value: Any) -> str:
    match value:
        case None:
            return "not known yet"
        case dict():
            pairs = cast("dict[str, int]", value).items()
            return ", ".join(f"{name} {count:,}" for name, count in pairs) or "nothing yet"
        case int() | float():
            return f"{value:,g}" if isinstance(value, float) else f"{value:,}"
        case _:
            return str(value)
