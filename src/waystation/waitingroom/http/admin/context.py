"""The context of operator routes: who asks, for which room, and the audit log."""

from typing import Any

from waystation.core.clock import Clock
from waystation.core.http.exchange import Request
from waystation.core.operators.operators import Operator, Operators
from waystation.waitingroom.room import Room
from waystation.waitingroom.rooms import Rooms
from waystation.waitingroom.state import RoomState

ROOT = "/api/v1/admin/queues"
MOST_BODY = 65_536
FAILS = (400, 401, 403, 404, 409, 412, 413, 415, 422, 429, 503)


class AdminContext:
    """The rooms, the operators and the audit log, for every operator route."""

    def __init__(self, rooms: Rooms, operators: Operators, clock: Clock) -> None:
        self.rooms = rooms
        self.clock = clock
        self.operators = operators

    async def allowed(self, request: Request, scope: str) -> tuple[Room, Operator]:
        """The room that a request is about and who asks; a Problem unless they may."""
        who = await self.operators.require(request, scope, request.slots["id"])
        return await self.rooms.find(request.slots["id"]), who

    async def note(
        self, who: Operator, action: str, room: Room, *, before: Any, after: Any
    ) -> None:
        """Write down who did what to a room."""
        name = room.name
        await self.operators.note(who, action, name, before=before, after=after)

    async def note_change(
        self, who: Operator, action: str, room: Room, before: RoomState, after: RoomState
    ) -> None:
        """Write down what somebody changed in a room's settings."""
        was, now = what_changed(before, after)
        await self.note(who, action, room, before=was, after=now)


def what_changed(before: RoomState, after: RoomState) -> tuple[dict[str, str], dict[str, str]]:
    """The settings that two looks at a room differ in, as they were and as they are."""
    was = {k: v for k, v in before.fields.items() if after.fields.get(k) != v}
    now = {k: v for k, v in after.fields.items() if before.fields.get(k) != v}
    return was, now
