"""Situations of visitors and waiting rooms, added to the table of the others."""

from datetime import UTC, datetime
from typing import Any

from tests.console.why.not_stored import SITUATIONS
from tests.console.why.scene import Expected, Scene, until
from tests.console.why.situations import A_DAY, situation
from waystation.console.why import Cause
from waystation.core.clock import SystemClock
from waystation.core.operators.operators import Operator, Operators
from waystation.core.operators.roles import Role
from waystation.waitingroom import Joined, JoinRequest, Lane, Place, Room, RoomOptions
from waystation.waitingroom.operating.control import Control
from waystation.waitingroom.running import Admission

__all__ = ["SITUATIONS"]


async def _room(scene: Scene, **options: Any) -> Room:
    room = Room("sale", scene.store)
    await room.open(RoomOptions(newcomers_per_minute=0, **options))
    # As a process does that serves it.
    await Admission(room).admit()
    return room


async def _joins(room: Room, name: str) -> Place:
    entry = await room.join(JoinRequest(key=name, secret=name, lane=Lane.NORMAL))
    assert isinstance(entry, Joined)
    return entry.place


@situation
async def visitor_in_line(scene: Scene) -> Expected:
    room = await _room(scene, admission_rate=2.0)
    await room.state()
    await _joins(room, "ada")
    place = await _joins(room, "ben")
    says = "waits behind 1 other, about .*; the room admits 2 a second"
    return Expected(place.id, Cause.BEHIND, says)


@situation
async def visitor_of_a_room_that_nobody_serves(scene: Scene) -> Expected:
    room = await _room(scene)
    place = await _joins(room, "ada")
    await scene.store.redis.hdel(room.store.keys.state, "flow_us")
    says = "waits because the room is served by no process; .*; the place is kept"
    return Expected(place.id, Cause.NOBODY, says)


@situation
async def room_that_nobody_serves_any_more(scene: Scene) -> Expected:
    room = await _room(scene)
    await _joins(room, "ada")
    long_ago = (await room.state()).now_ms * 1000 - 60_000_000
    await scene.store.redis.hset(room.store.keys.state, "flow_us", str(long_ago))
    return Expected("sale", Cause.NOBODY, "is served by no process since .*room serve")


@situation
async def visitor_of_a_paused_room(scene: Scene) -> Expected:
    room = await _room(scene)
    place = await _joins(room, "ada")
    await Control(room).pause()
    # As `waystation room pause` notes it.
    operators = Operators(scene.store, SystemClock())
    who = Operator(name="ada@desk", role=Role.ADMIN)
    await operators.note(who, "pause", "sale", before=None, after=None)
    # What somebody else does to the room soon after is no pause.
    other = Operator(name="bob@desk", role=Role.ADMIN)
    await operators.note(other, "message", "sale", before=None, after=None)
    says = "waits because the room is paused, by ada@desk, since .*; the place is kept"
    return Expected(place.id, Cause.PAUSED, says)


@situation
async def room_that_a_change_of_its_settings_has_paused(scene: Scene) -> Expected:
    room = await _room(scene)
    await room.store.write({"max_active": "7", "status": "paused"})
    who = Operator(name="ada@desk", role=Role.ADMIN)
    await Operators(scene.store, SystemClock()).note(who, "change", "sale", before=None, after=None)
    return Expected("sale", Cause.PAUSED, r"is paused, by ada@desk, since 20\d\d-")


@situation
async def visitor_of_a_closed_room(scene: Scene) -> Expected:
    room = await _room(scene)
    place = await _joins(room, "ada")
    await Control(room).close()
    return Expected(place.id, Cause.CLOSED, "waits because the room is closed since")


@situation
async def visitor_of_a_full_room(scene: Scene) -> Expected:
    room = await _room(scene, max_active=1, admission_rate=1000.0)
    first, second = await _joins(room, "ada"), await _joins(room, "ben")
    await _admitted(room, first)
    return Expected(second.id, Cause.FULL, "as the next one.*; all 1 seats are taken")


@situation
async def visitor_who_was_called(scene: Scene) -> Expected:
    room = await _room(scene, admission_rate=1000.0)
    place = await _joins(room, "ada")
    await _admitted(room, place)
    return Expected(place.id, Cause.CALLED, "was called in and has not claimed the turn")


@situation
async def visitor_inside(scene: Scene) -> Expected:
    room = await _room(scene, admission_rate=1000.0)
    place = await _joins(room, "ada")
    await _admitted(room, place)
    await room.claim(place, "ada")
    return Expected(place.id, Cause.INSIDE, "is inside; the session ends at")


@situation
async def visitor_who_left(scene: Scene) -> Expected:
    room = await _room(scene)
    place = await _joins(room, "ada")
    await room.leave(place, "ada")
    return Expected(place.id, Cause.REMOVED, "left the line at")


@situation
async def visitor_who_was_removed(scene: Scene) -> Expected:
    room = await _room(scene)
    place = await _joins(room, "ada")
    await room.remove(place, "a bot")
    return Expected(place.id, Cause.REMOVED, r"was removed from the line by an operator \(a bot\)")


@situation
async def visitor_before_the_opening(scene: Scene) -> Expected:
    room = await _room(scene)
    opens = datetime.now(UTC) + A_DAY
    await Control(room).schedule(int(opens.timestamp() * 1000))
    place = await _joins(room, "ada")
    return Expected(place.id, Cause.CLOSED, "waits because the room opens at 20")


@situation
async def closed_room(scene: Scene) -> Expected:
    room = await _room(scene)
    await Control(room).close()
    return Expected("sale", Cause.CLOSED, "Room sale is closed since")


async def _admitted(room: Room, place: Place) -> None:
    admission = Admission(room)

    async def called() -> bool:
        await admission.admit()
        return type(await room.status(place)).__name__ == "Called"

    await until(called)


@situation
async def visitor_before_the_opening_without_a_draw(scene: Scene) -> Expected:
    room = await _room(scene)
    await room.store.write({"phase": "prequeue"})
    place = await _joins(room, "ada")
    says = "the room has not opened yet; who came first is called first"
    return Expected(place.id, Cause.CLOSED, says)


@situation
async def visitor_before_a_draw(scene: Scene) -> Expected:
    room = await _room(scene)
    await room.store.write({"phase": "prequeue", "commitment": "0" * 64})
    place = await _joins(room, "ada")
    says = "the room has not opened yet; places are drawn then"
    return Expected(place.id, Cause.CLOSED, says)
