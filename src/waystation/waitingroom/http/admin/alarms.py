"""Operator routes for alarms."""

from waystation.core.http.endpoints import endpoint
from waystation.core.http.exchange import Answer, Request, answer
from waystation.waitingroom.http.admin import bodies
from waystation.waitingroom.http.admin.context import FAILS, ROOT, AdminContext
from waystation.waitingroom.operating.alarms import AlarmOptions, Alarms, limits_of, ringing_in


class AlarmAdmin:
    """The alarms of a room."""

    def __init__(self, context: AdminContext) -> None:
        self._context = context

    @endpoint(f"GET {ROOT}/{{id}}/alarms", gives={200: bodies.Alarms}, fails=FAILS, scope="viewer")
    async def look(self, request: Request) -> Answer:
        """The limits of a room, and the alarms that are on."""
        room, _ = await self._context.allowed(request, "viewer")
        state = await room.state()
        return answer(bodies.Alarms(limits=limits_of(state), alarms=ringing_in(state)))

    @endpoint(
        f"PUT {ROOT}/{{id}}/alarms",
        takes=AlarmOptions,
        gives={200: bodies.Alarms},
        fails=FAILS,
        scope="operator",
    )
    async def put(self, request: Request) -> Answer:
        """Change the limits beyond which the room raises an alarm."""
        room, who = await self._context.allowed(request, "operator")
        asked = await request.read(AlarmOptions)
        before = await room.state()
        alarms = Alarms(room)
        await alarms.set(asked)
        await alarms.keep()
        after = await room.state()
        await self._context.note_change(who, "alarms", room, before, after)
        return answer(bodies.Alarms(limits=limits_of(after), alarms=ringing_in(after)))
