"""Operator routes for scheduled events."""

import random
from datetime import datetime
from typing import Any

import msgspec

from waystation.core.errors import NotFound
from waystation.core.http.endpoints import endpoint
from waystation.core.http.exchange import Answer, Request, answer
from waystation.waitingroom.http.admin import bodies
from waystation.waitingroom.http.admin.context import FAILS, MOST_BODY, ROOT, AdminContext
from waystation.waitingroom.http.admin.merging import named
from waystation.waitingroom.http.bodies import rfc3339
from waystation.waitingroom.operating.schedule import CURRENT, Schedule, ScheduledEvent
from waystation.waitingroom.options import RoomOptions
from waystation.waitingroom.state import RoomState
from waystation.waitingroom.visitor import new_id


class EventAdmin:
    """The events of rooms."""

    def __init__(self, context: AdminContext) -> None:
        self._context = context

    @endpoint(f"GET {ROOT}/{{id}}/events", gives={200: bodies.Events}, fails=FAILS, scope="viewer")
    async def every(self, request: Request) -> Answer:
        """List scheduled events, the next first."""
        room, _ = await self._context.allowed(request, "viewer")
        state = await room.state()
        planned = [_planned(each, state) for each in await Schedule(room).planned()]
        return answer(bodies.Events(events=planned))

    @endpoint(
        f"POST {ROOT}/{{id}}/events",
        takes=bodies.NewEvent,
        gives={201: bodies.PlannedEvent},
        fails=FAILS,
        scope="admin",
    )
    async def plan(self, request: Request) -> Answer:
        """Schedule an event, with a pre-queue, a draw and settings while it lasts."""
        room, who = await self._context.allowed(request, "admin")
        asked = await request.read(bodies.NewEvent, MOST_BODY)
        state = await room.state()
        gathers = asked.prequeue_start_time
        event = ScheduledEvent(
            id=new_id(random.SystemRandom()),
            name=asked.name[:200],
            starts_ms=_millis(asked.event_start_time),
            ends_ms=_millis(asked.event_end_time),
            gathers_ms=None if gathers is None else _millis(gathers),
            by_lot=asked.shuffle_at_event_start,
            witness=asked.witness,
            changes=named(state.options, asked.settings),
        )
        schedule = Schedule(room)
        event = await schedule.plan(event)
        await schedule.keep()
        after = msgspec.to_builtins(event)
        await self._context.note(who, "plan-event", room, before=None, after=after)
        return answer(_planned(event, await room.state()), 201)

    @endpoint(
        f"GET {ROOT}/{{id}}/events/{{event}}",
        gives={200: bodies.PlannedEvent},
        fails=FAILS,
        scope="viewer",
    )
    async def look(self, request: Request) -> Answer:
        """An event, and the room's settings as if it were on."""
        room, _ = await self._context.allowed(request, "viewer")
        wanted = request.slots["event"]
        found = next((e for e in await Schedule(room).planned() if e.id == wanted), None)
        if found is None:
            raise NotFound("there is no such event")
        return answer(_planned(found, await room.state()))

    @endpoint(
        f"DELETE {ROOT}/{{id}}/events/{{event}}", gives={204: None}, fails=FAILS, scope="admin"
    )
    async def cancel(self, request: Request) -> Answer:
        """Cancel an event, or end one that is on."""
        room, who = await self._context.allowed(request, "admin")
        id = request.slots["event"]
        await Schedule(room).cancel(id)
        await self._context.note(who, "cancel-event", room, before=id, after=None)
        return Answer(204)


def _planned(event: ScheduledEvent, state: RoomState) -> bodies.PlannedEvent:
    status = "planned"
    if state.fields.get(CURRENT) == event.id:
        status = "running" if state.phase == "open" else "gathering"
    as_if = {**state.options.to_fields(), **event.changes}
    settings: dict[str, Any] = RoomOptions.from_fields(as_if).to_settings()
    return bodies.PlannedEvent(
        id=event.id,
        name=event.name,
        status=status,
        event_start_time=rfc3339(event.starts_ms),
        event_end_time=rfc3339(event.ends_ms),
        prequeue_start_time=None if event.gathers_ms is None else rfc3339(event.gathers_ms),
        shuffle_at_event_start=event.by_lot,
        witness=event.witness,
        commit=event.commitment or None,
        settings=settings,
    )


def _millis(at: datetime) -> int:
    return round(at.timestamp() * 1000)
