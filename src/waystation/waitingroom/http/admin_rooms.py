"""Endpoints of operators for rooms: settings, figures, controls, events."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from typing import Any

import msgspec

from waystation.core import codec
from waystation.core.errors import InvalidOption, NotFound, StoreError, WrongState
from waystation.core.http.endpoints import endpoint
from waystation.core.http.exchange import Answer, Request, answer
from waystation.core.http.problems import Code, Problem
from waystation.waitingroom.estimates import estimate
from waystation.waitingroom.http import admin_bodies as bodies
from waystation.waitingroom.http.admin_bodies import (
    MOST_BODY,
    OWN,
    ROOT,
    AdminContext,
    merged,
    named,
)
from waystation.waitingroom.http.bodies import PlaceBody, rfc3339
from waystation.waitingroom.http.status import (
    EVERY_S,
    LONGEST_S,
    Stream,
    notice,
    serving_state,
    status_body,
)
from waystation.waitingroom.operating import search
from waystation.waitingroom.operating.alarms import ringing_in
from waystation.waitingroom.operating.control import Control
from waystation.waitingroom.operating.schedule import CURRENT, Schedule, ScheduledEvent
from waystation.waitingroom.options import RoomOptions
from waystation.waitingroom.room import Room
from waystation.waitingroom.rooms import is_name
from waystation.waitingroom.rules import WrittenRule, rule_of, stored_rules
from waystation.waitingroom.running import Admission
from waystation.waitingroom.state import RoomState
from waystation.waitingroom.visitor import Lane, Waiting, new_id

MOST_LISTED = 100
MOST_STREAMS = 50
"""Operators who may watch one process at a time."""


class Overview:
    """Looking, and taking one visitor out."""

    def __init__(self, context: AdminContext) -> None:
        self._context = context
        self._watching = 0

    @endpoint(f"GET {ROOT}/{{id}}/status", gives={200: bodies.RoomStatus}, scope="viewer")
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

    @endpoint(f"GET {ROOT}/{{id}}/stats", gives={200: bodies.Stats}, scope="viewer")
    async def stats(self, request: Request) -> Answer:
        """The numbers of this instant and this hour."""
        room, _ = await self._context.allowed(request, "viewer")
        return answer(await numbers(room))

    @endpoint(f"GET {ROOT}/{{id}}/stats/stream", gives={200: None, 204: None}, scope="viewer")
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

    @endpoint(f"GET {ROOT}/{{id}}/sessions", gives={200: bodies.Sessions}, scope="viewer")
    async def sessions(self, request: Request) -> Answer:
        """List sessions, the next to expire first; a hundred at most."""
        room, _ = await self._context.allowed(request, "viewer")
        key = room.store.keys.sessions_expiry
        ids = await room.store.ask("ZRANGE", key, 0, MOST_LISTED - 1)
        listed = [await _session(room, codec.as_text(each)) for each in ids]
        total = await room.store.ask("ZCARD", key)
        return answer(bodies.Sessions(sessions=listed, total=total))

    @endpoint(f"GET {ROOT}/{{id}}/sessions/{{sid}}", scope="viewer")
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

    @endpoint(f"DELETE {ROOT}/{{id}}/sessions/{{sid}}", gives={204: None}, scope="operator")
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

    @endpoint(f"GET {ROOT}/{{id}}/positions/{{pid}}", gives={200: PlaceBody}, scope="viewer")
    async def position(self, request: Request) -> Answer:
        """The status of a visitor, as they see it themselves."""
        room, _ = await self._context.allowed(request, "viewer")
        place = await room.get_place(request.slots["pid"])
        status = await room.status(place)
        return answer(status_body(room, place, status, await room.state()))

    @endpoint(f"DELETE {ROOT}/{{id}}/positions/{{pid}}", gives={204: None}, scope="operator")
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


async def numbers(room: Room, state: RoomState | None = None) -> bodies.Stats:
    """The numbers of this instant and this hour."""
    state, hour = state or await room.state(), await room.statistics()
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


class RoomAdmin:
    """Setting rooms up."""

    def __init__(self, context: AdminContext) -> None:
        self._context = context
        self._rooms = context.rooms

    @endpoint(f"GET {ROOT}", fails=(400, 401, 403, 429, 503), scope="viewer")
    async def list_rooms(self, request: Request) -> Answer:
        """List the rooms that the key may see, with their numbers."""
        who = await self._context.operators.require(request, "viewer", request.query.get("queue"))
        rooms = list[dict[str, Any]]()
        for room, state in await self._rooms.states():
            if who.may("viewer", room.name):
                try:
                    rooms.append({**room_body(room, state), "stats": await numbers(room, state)})
                except StoreError as error:
                    # The others are shown all the same.
                    self._rooms.report(room, "stats", error)
        return answer({"queues": rooms})

    @endpoint(f"POST {ROOT}", takes=bodies.NewRoom, gives={201: dict}, scope="admin")
    async def create(self, request: Request) -> Answer:
        """Create a room."""
        await self._context.operators.known(request)
        asked = await request.read(bodies.NewRoom, MOST_BODY)
        who = await self._context.operators.require(request, "admin", asked.id)
        if not is_name(asked.id):
            raise Problem(400, Code.INVALID_INPUT, "an id must be 1 to 64 of A-Z a-z 0-9 _ . -")
        room = self._rooms.of(asked.id)
        options, own = merged(RoomOptions(), asked.settings)
        try:
            await room.open(options, version=0, settings=own)
        except WrongState:
            raise Problem(409, Code.EXISTS, "there is a room of that name") from None
        await self._context.note(who, "create", room, before=None, after=asked.settings)
        self._rooms.forget()
        return _versioned(room, await room.state(), 201)

    @endpoint(f"GET {ROOT}/{{id}}", scope="viewer")
    async def read_room(self, request: Request) -> Answer:
        """The settings of a room."""
        room, _ = await self._context.allowed(request, "viewer")
        return _versioned(room, await room.state())

    @endpoint(f"PATCH {ROOT}/{{id}}", takes=dict, scope="admin")
    async def change(self, request: Request) -> Answer:
        """Change a room's settings; with If-Match only if unchanged since."""
        room, who = await self._context.allowed(request, "admin")
        asked = await request.read(dict[str, Any], MOST_BODY)
        before = await room.state()
        _require_version(request, before.version)
        options, own = merged(before.options, asked)
        changed = {
            name: value
            for name, value in options.to_fields().items()
            if before.options.to_fields()[name] != value
        }
        try:
            await room.store.write({**changed, **own}, version=before.version)
        except WrongState as error:
            raise Problem(412, Code.CHANGED_MEANWHILE, str(error)) from None
        after = await room.state()
        await self._context.note_change(who, "change", room, before, after)
        return _versioned(room, after)

    @endpoint(f"DELETE {ROOT}/{{id}}", gives={204: None}, scope="admin")
    async def delete(self, request: Request) -> Answer:
        """Delete an empty room with its codes, events and theme."""
        room, who = await self._context.allowed(request, "admin")
        try:
            await room.delete()
        except WrongState as error:
            raise Problem(409, Code.NOT_EMPTY, str(error)) from None
        self._rooms.forget()
        await self._context.note(who, "delete", room, before=room.name, after=None)
        return Answer(204)

    @endpoint(f"GET {ROOT}/{{id}}/rules", scope="viewer")
    async def rules(self, request: Request) -> Answer:
        """The requests that the room protects."""
        room, _ = await self._context.allowed(request, "viewer")
        state = await room.state()
        return answer({"rules": stored_rules(state.fields.get("rules", ""))})

    @endpoint(
        f"PUT {ROOT}/{{id}}/rules",
        takes=list[WrittenRule],
        query={"dry_run": {"type": "string", "enum": ["true"]}},
        scope="admin",
    )
    async def set_rules(self, request: Request) -> Answer:
        """Change them; with ?dry_run=true only check them."""
        room, who = await self._context.allowed(request, "admin")
        asked = await request.read(list[WrittenRule], MOST_BODY)
        for rule in asked:
            if rule.header and ":" not in rule.header:
                raise InvalidOption(f"header must be `Name: part`, got {rule.header!r}")
            rule_of(room.name, rule)
        dry = request.query.get("dry_run")
        if dry not in (None, "true"):
            raise Problem(400, Code.MALFORMED, "dry_run must be true, or not be there")
        if dry is None:
            before = await room.state()
            await room.store.write({"rules": codec.encode(asked).decode() if asked else ""})
            await self._context.note_change(who, "rules", room, before, await room.state())
        return answer({"rules": asked})


def room_body(room: Room, state: RoomState) -> dict[str, Any]:
    """How a room is set up, as operators see it."""
    own = {name: state.fields[name] for name in OWN if name in state.fields}
    return {
        "id": room.name,
        "version": state.version,
        "epoch": state.epoch,
        "phase": state.phase,
        "serving_state": serving_state(state),
        "event_id": state.fields.get("event"),
        "event_start_time": rfc3339(state.starts_ms) if state.starts_ms else None,
        "event_end_time": rfc3339(state.ends_ms) if state.ends_ms else None,
        "commit": state.fields.get("commitment"),
        "settings": {**state.options.to_settings(), **own},
    }


def _versioned(room: Room, state: RoomState, status: int = 200) -> Answer:
    tag = (b"etag", f'"{state.version}"'.encode())
    return answer(room_body(room, state), status, tag)


def _require_version(request: Request, version: int) -> None:
    """Refuse a change unless the room is at a version that If-Match names, if it names any."""
    expected = request.header("if-match")
    # What compresses an answer makes its tag a weak one.
    named = [each.strip().removeprefix("W/").strip('"') for each in expected.split(",")]
    if expected and expected != "*" and str(version) not in named:
        raise Problem(412, Code.CHANGED_MEANWHILE, f"the room is at version {version}")


class Controls:
    """Pause, resume, faster, slower, a word to everybody."""

    def __init__(self, context: AdminContext) -> None:
        self._context = context

    @endpoint(f"POST {ROOT}/{{id}}/pause", scope="operator")
    async def pause(self, request: Request) -> Answer:
        """Stop admission; everybody keeps their place."""
        return await self._do(request, "pause", Control.pause)

    @endpoint(f"POST {ROOT}/{{id}}/resume", scope="operator")
    async def resume(self, request: Request) -> Answer:
        """Admit visitors again."""
        return await self._do(request, "resume", Control.resume)

    @endpoint(f"POST {ROOT}/{{id}}/queue-all", scope="operator")
    async def queue_all(self, request: Request) -> Answer:
        """Make every arrival wait and stop admission."""
        return await self._do(request, "queue-all", Control.queue_all)

    @endpoint(f"POST {ROOT}/{{id}}/drain", scope="operator")
    async def drain(self, request: Request) -> Answer:
        """Admit those in line, and let nobody join."""
        return await self._do(request, "drain", Control.drain)

    @endpoint(f"POST {ROOT}/{{id}}/close", takes=bodies.Ending, scope="admin")
    async def close(self, request: Request) -> Answer:
        """End the room; those in line read it, in words of the seller's where they are given."""
        return await self._end(request, "close", Control.close)

    @endpoint(f"POST {ROOT}/{{id}}/sold-out", takes=bodies.Ending, scope="admin")
    async def sell_out(self, request: Request) -> Answer:
        """End the room because nothing is left; those in line read that."""
        return await self._end(request, "sell-out", Control.sell_out)

    async def _end(
        self, request: Request, action: str, step: Callable[..., Awaitable[object]]
    ) -> Answer:
        await self._context.allowed(request, "admin")
        asked = await request.read(bodies.Ending, MOST_BODY)

        async def end(control: Control) -> None:
            await step(control, text=asked.text, link=asked.link)

        return await self._do(request, action, end, scope="admin")

    @endpoint(f"POST {ROOT}/{{id}}/fail-open", takes=bodies.Minutes, scope="admin")
    async def fail_open(self, request: Request) -> Answer:
        """Admit everybody who asks, for some minutes."""
        await self._context.allowed(request, "admin")
        asked = await request.read(bodies.Minutes)
        if asked.minutes > bodies.MOST_OPEN_MINUTES:
            raise InvalidOption(f"minutes must be at most {bodies.MOST_OPEN_MINUTES:g}")

        async def open_up(control: Control) -> None:
            await control.fail_open(round(asked.minutes * 60))

        return await self._do(request, "fail-open", open_up, scope="admin")

    @endpoint(f"POST {ROOT}/{{id}}/rate", takes=bodies.Rate, scope="operator")
    async def rate(self, request: Request) -> Answer:
        """Change the admission rate, at once or over a ramp."""
        await self._context.allowed(request, "operator")
        asked = await request.read(bodies.Rate)

        async def set_rate(control: Control) -> None:
            await control.set_rate(asked.new_users_per_minute / 60, ramp=asked.ramp_seconds)

        return await self._do(request, "rate", set_rate)

    @endpoint(f"POST {ROOT}/{{id}}/message", takes=bodies.Message, scope="operator")
    async def message(self, request: Request) -> Answer:
        """Show a message to all visitors, or remove it."""
        await self._context.allowed(request, "operator")
        asked = await request.read(bodies.Message, MOST_BODY)
        if not 0 <= asked.minutes <= bodies.LONGEST_MINUTES:
            raise InvalidOption(f"minutes must be 0 to {bodies.LONGEST_MINUTES}")

        async def tell(control: Control) -> None:
            now_ms = self._context.clock.now_ms()
            until = now_ms + round(asked.minutes * 60_000) if asked.minutes else 0
            await control.show_message(asked.text, level=asked.level, expires_ms=until)

        return await self._do(request, "message", tell)

    @endpoint(f"POST {ROOT}/{{id}}/reset", takes=bodies.Confirm, scope="admin")
    async def reset(self, request: Request) -> Answer:
        """Revoke all tokens, confirmed by the room's name."""
        await self._context.allowed(request, "admin")
        asked = await request.read(bodies.Confirm)
        if asked.confirm != request.slots["id"]:
            raise Problem(422, Code.NOT_CONFIRMED, "confirm must be the name of the room")
        return await self._do(request, "reset", Control.revoke_everything, scope="admin")

    @endpoint(f"POST {ROOT}/{{id}}/admit", takes=bodies.Admit, scope="operator")
    async def admit(self, request: Request) -> Answer:
        """Admit some visitors now, regardless of the rate."""
        room, who = await self._context.allowed(request, "operator")
        asked = await request.read(bodies.Admit)
        lane = None if asked.lane is None else Lane(asked.lane)
        called = await Admission(room).admit_now(asked.count, lane=lane)
        after = {"called": len(called.called), "waiting": called.waiting}
        await self._context.note(who, "admit", room, before=None, after=after)
        return answer(after)

    async def _do(
        self,
        request: Request,
        action: str,
        step: Callable[[Control], Awaitable[object]],
        *,
        scope: str = "operator",
    ) -> Answer:
        room, who = await self._context.allowed(request, scope)
        before = await room.state()
        await step(Control(room))
        after = await room.state()
        await self._context.note_change(who, action, room, before, after)
        return answer({"serving_state": serving_state(after), "version": after.version})


class EventAdmin:
    """The events of rooms."""

    def __init__(self, context: AdminContext) -> None:
        self._context = context

    @endpoint(f"GET {ROOT}/{{id}}/events", gives={200: bodies.Events}, scope="viewer")
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
        f"GET {ROOT}/{{id}}/events/{{event}}", gives={200: bodies.PlannedEvent}, scope="viewer"
    )
    async def look(self, request: Request) -> Answer:
        """An event, and the room's settings as if it were on."""
        room, _ = await self._context.allowed(request, "viewer")
        wanted = request.slots["event"]
        found = next((e for e in await Schedule(room).planned() if e.id == wanted), None)
        if found is None:
            raise NotFound("there is no such event")
        return answer(_planned(found, await room.state()))

    @endpoint(f"DELETE {ROOT}/{{id}}/events/{{event}}", gives={204: None}, scope="admin")
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
