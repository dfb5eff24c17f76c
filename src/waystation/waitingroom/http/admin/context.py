"""What all of the operators' endpoints need: who asks, which room, and a line in the audit."""

from typing import Any

from waystation.waitingroom.http.context import Desk
from waystation.waitingroom.http.framework.exchange import Request
from waystation.waitingroom.http.operators.operators import Operator, Operators
from waystation.waitingroom.room import Room
from waystation.waitingroom.rooms import name_of
from waystation.waitingroom.state import Pulse

ROOT = "/api/v1/admin/queues"
MOST_BODY = 65_536
FAILS = (400, 401, 403, 404, 409, 412, 413, 415, 422, 429, 503)


class Office:
    """The desk, seen from behind."""

    def __init__(self, desk: Desk, operators: Operators) -> None:
        self.desk = desk
        self.operators = operators

    async def allowed(self, request: Request, scope: str) -> tuple[Room, Operator]:
        """The room that a request is about and who asks; a Problem unless they may."""
        who = await self.operators.require(request, scope, request.slots["id"])
        return await self.desk.room(request), who

    async def note(
        self, who: Operator, action: str, room: Room, *, before: Any, after: Any
    ) -> None:
        """Write down who did what to a room."""
        name = name_of(room.queue_id)
        await self.operators.note(who, action, name, before=before, after=after)

    async def note_change(
        self, who: Operator, action: str, room: Room, before: Pulse, after: Pulse
    ) -> None:
        """Write down what somebody changed in a room's settings."""
        was, now = what_changed(before, after)
        await self.note(who, action, room, before=was, after=now)


def what_changed(before: Pulse, after: Pulse) -> tuple[dict[str, str], dict[str, str]]:
    """The settings that two looks at a room differ in, as they were and as they are."""
    was = {k: v for k, v in before.fields.items() if after.fields.get(k) != v}
    now = {k: v for k, v in after.fields.items() if before.fields.get(k) != v}
    return was, now
