"""Operator routes for live numbers, places and sessions."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from waystation.core.errors import NotFound, StoreError
from waystation.core.http.endpoints import endpoint
from waystation.core.http.exchange import Answer, Request, answer
from waystation.core.store import faults
from waystation.waitingroom.estimates import estimate
from waystation.waitingroom.http.admin import bodies
from waystation.waitingroom.http.admin.context import FAILS, ROOT, AdminContext
from waystation.waitingroom.http.bodies import PlaceBody, rfc3339
from waystation.waitingroom.http.visitors.status import notice, serving_state, status_body
from waystation.waitingroom.http.visitors.streams import EVERY_S, LONGEST_S, Stream
from waystation.waitingroom.operating import search
from waystation.waitingroom.operating.alarms import ringing_in
from waystation.waitingroom.room import Room
from waystation.waitingroom.state import RoomState
from waystation.waitingroom.visitor import Lane, Waiting

MOST_LISTED = 100
MOST_STREAMS = 50
"""Operators who may watch one process at a time."""


class Overview:
    """Looking, and taking one visitor out."""

    def __init__(self, context: AdminContext) -> None:
        self._context = context
        self._watching = 0

    @endpoint(
        f"GET {ROOT}/{{id}}/status", gives={200: bodies.RoomStatus}, fails=FAILS, scope="viewer"
    )
    async def status(self, request: Request) -> Answer:
        """The status of a room, in the field names of other products."""
        room, _ = await self._context.allowed(request, "viewer")
        state = await room.state()
        wait = _wait_of_the_last(state)
        word = "queueing" if state.waiting else "not_queueing"
        return answer(
            bodies.RoomStatus(
                status="event_prequeueing" if state.phase == "prequeue" else word,
                event_id=state.fields.get("event"),
                estimated_queued_users=state.waiting + state.early,
                estimated_total_active_users=state.inside,
                max_estimated_time_minutes=round(wait.p90 / 60, 1) if wait else None,
            )
        )

    @endpoint(f"GET {ROOT}/{{id}}/stats", gives={200: bodies.Stats}, fails=FAILS, scope="viewer")
    async def stats(self, request: Request) -> Answer:
        """The numbers of this instant and this hour."""
        room, _ = await self._context.allowed(request, "viewer")
        return answer(await numbers(room))

    @endpoint(
        f"GET {ROOT}/{{id}}/stats/stream", gives={200: None, 204: None}, fails=FAILS, scope="viewer"
    )
    async def stats_stream(self, request: Request) -> Answer:
        """The same once a second, as server-sent events."""
        room, _ = await self._context.allowed(request, "viewer")
        if self._watching >= MOST_STREAMS:
            return Answer(204, headers=[(b"retry-after", b"30")])
        return Stream(events=self._watch(room), gone=request.gone)

    async def _watch(self, room: Room) -> AsyncIterator[tuple[str, Any]]:
        clock = self._context.clock
        until = clock.monotonic() + LONGEST_S
        self._watching += 1
        try:
            while clock.monotonic() < until:
                yield "stats", await numbers(room)
                await asyncio.sleep(EVERY_S)
        except StoreError:
            # The browser asks again by itself, and by then the store may be back.
            return
        finally:
            self._watching -= 1

    @endpoint(
        f"GET {ROOT}/{{id}}/sessions", gives={200: bodies.Sessions}, fails=FAILS, scope="viewer"
    )
    async def sessions(self, request: Request) -> Answer:
        """List sessions, the next to expire first; a hundred at most."""
        room, _ = await self._context.allowed(request, "viewer")
        with faults.translated():
            client = await room.store.client()
            key = room.store.keys.sessions_expiry
            ids = await client.execute_command("ZRANGE", key, 0, MOST_LISTED - 1)
        listed = [await _session(room, each.decode()) for each in ids]
        return answer(bodies.Sessions(sessions=listed))

    @endpoint(f"GET {ROOT}/{{id}}/sessions/{{sid}}", fails=FAILS, scope="viewer")
    async def session(self, request: Request) -> Answer:
        """A session."""
        room, _ = await self._context.allowed(request, "viewer")
        session = await room.get_session(request.slots["sid"])
        # On the wire these are seconds, as in the documented hash.
        seconds = {
            name: int(getattr(session, name).timestamp())
            for name in ("started_at", "expires_at", "last_activity")
        }
        return answer({**msgspec.to_builtins(session), **seconds})

    @endpoint(
        f"DELETE {ROOT}/{{id}}/sessions/{{sid}}", gives={204: None}, fails=FAILS, scope="operator"
    )
    async def end_session(self, request: Request) -> Answer:
        """End a session."""
        room, who = await self._context.allowed(request, "operator")
        place = await room.get_place(request.slots["sid"])
        if not await room.terminate(place, "admin_revoked"):
            raise NotFound("the session has ended")
        await self._context.note(who, "end-session", room, before=place.id, after=None)
        return Answer(204)

    @endpoint(
        f"GET {ROOT}/{{id}}/positions",
        gives={200: bodies.Positions},
        query={"ticket": {"type": "string", "pattern": search.TICKET}},
        fails=FAILS,
        scope="viewer",
    )
    async def find(self, request: Request) -> Answer:
        """Find visitors by the ticket that their page shows, ten at most."""
        room, _ = await self._context.allowed(request, "viewer")
        ticket = request.query.get("ticket")
        ids = [] if ticket is None else await search.ids_by_ticket(room, ticket)
        state = await room.state()
        found: list[PlaceBody] = []
        for id in ids:
            try:
                place = await room.get_place(id)
            except NotFound:
                # It went while we were looking.
                continue
            found.append(status_body(room, place, await room.status(place), state))
        return answer(bodies.Positions(positions=found))

    @endpoint(
        f"GET {ROOT}/{{id}}/positions/{{pid}}", gives={200: PlaceBody}, fails=FAILS, scope="viewer"
    )
    async def position(self, request: Request) -> Answer:
        """The status of a visitor, as they see it themselves."""
        room, _ = await self._context.allowed(request, "viewer")
        place = await room.get_place(request.slots["pid"])
        status = await room.status(place)
        return answer(status_body(room, place, status, await room.state()))

    @endpoint(
        f"DELETE {ROOT}/{{id}}/positions/{{pid}}", gives={204: None}, fails=FAILS, scope="operator"
    )
    async def remove(self, request: Request) -> Answer:
        """Remove a visitor from the line."""
        room, who = await self._context.allowed(request, "operator")
        place = await room.get_place(request.slots["pid"])
        if not await room.remove(place, "admin_removed"):
            raise NotFound("there is nobody in line with that id")
        await self._context.note(who, "remove", room, before=place.id, after=None)
        return Answer(204)


async def _session(room: Room, id: str) -> bodies.ListedSession:
    try:
        found = await room.get_session(id)
    except NotFound:
        # It ran out while we were reading.
        return bodies.ListedSession(session_id=id, status="ended", started_at=None, page_views=0)
    started = rfc3339(found.started_at)
    return bodies.ListedSession(
        session_id=id, status=found.status, started_at=started, page_views=found.page_views
    )


async def numbers(room: Room) -> bodies.Stats:
    """The numbers of this instant and this hour."""
    state, hour = await room.state(), await room.statistics()
    wait = _wait_of_the_last(state)
    return bodies.Stats(
        now=rfc3339(state.now_ms),
        serving_state=serving_state(state),
        waiting=list(state.lanes),
        prequeued=state.early,
        returned=state.returned,
        called=state.called,
        missed=state.late,
        active=state.inside,
        max_active=state.options.max_active,
        rate_per_minute=round(state.rate * 60, 3),
        admission_rate_actual=None if state.flow is None else round(state.flow * 60, 3),
        wait_p50=wait.p50 if wait else None,
        wait_p90=wait.p90 if wait else None,
        hour=hour,
        model=state.model.version,
        alarms=ringing_in(state),
        message=said.text if (said := notice(state)) else {},
        served=state.served,
    )


def _wait_of_the_last(state: RoomState) -> estimate.Wait | None:
    last = Waiting(lane=Lane.NORMAL, seq=0, ahead=max(0, state.lanes[0] - 1), length=0)
    return estimate.wait(state, last)
