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
    AdminCall,
    AdminContext,
    AdminRoutes,
    merged,
    named,
    room_endpoint,
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


class Overview(AdminRoutes):
    """Looking, and taking one visitor out."""

    def __init__(self, context: AdminContext) -> None:
        super().__init__(context)
        self._watching = 0

    @room_endpoint("GET /stats", "viewer")
    async def stats(self, call: AdminCall) -> bodies.Stats:
        """The numbers of this instant and this hour."""
        return await numbers(call.room)

    @room_endpoint("GET /stats/stream", "viewer", gives={200: None, 204: None})
    async def stats_stream(self, call: AdminCall) -> Answer:
        """The same once a second, as server-sent events."""
        if self._watching >= MOST_STREAMS:
            return Answer(204, headers=[(b"retry-after", b"30")])
        return Stream(events=self._watch(call.room), gone=call.request.gone)

    async def _watch(self, room: Room) -> AsyncIterator[tuple[str, Any]]:
        clock = self.context.clock
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

    @room_endpoint("GET /sessions", "viewer")
    async def sessions(self, call: AdminCall) -> bodies.Sessions:
        """List sessions, the next to expire first; a hundred at most."""
        room, key = call.room, call.room.store.keys.sessions_expiry
        ids = await room.store.ask("ZRANGE", key, 0, MOST_LISTED - 1)
        listed = [await _session(room, codec.as_text(each)) for each in ids]
        return bodies.Sessions(sessions=listed, total=await room.store.ask("ZCARD", key))

    @room_endpoint("GET /sessions/{sid}", "viewer")
    async def session(self, call: AdminCall) -> dict[str, Any]:
        """A session."""
        session = await call.room.get_session(call.request.slots["sid"])
        # On the wire these are seconds, as in the documented hash.
        seconds = {
            name: int(getattr(session, name).timestamp())
            for name in ("started_at", "expires_at", "last_activity")
        }
        return {**msgspec.to_builtins(session), **seconds}

    @room_endpoint("DELETE /sessions/{sid}", "operator")
    async def end_session(self, call: AdminCall) -> None:
        """End a session."""
        place = await call.room.get_place(call.request.slots["sid"])
        if not await call.room.terminate(place, "admin_revoked"):
            raise NotFound("the session has ended")
        await call.note("end-session", before=place.id)

    @room_endpoint(
        "GET /positions",
        "viewer",
        query={"ticket": {"type": "string", "pattern": search.TICKET}},
    )
    async def find(self, call: AdminCall) -> bodies.Positions:
        """Find visitors by the ticket that their page shows, ten at most."""
        room, ticket = call.room, call.request.query.get("ticket")
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
        return bodies.Positions(positions=found)

    @room_endpoint("GET /positions/{pid}", "viewer")
    async def position(self, call: AdminCall) -> PlaceBody:
        """The status of a visitor, as they see it themselves."""
        place = await call.room.get_place(call.request.slots["pid"])
        status = await call.room.status(place)
        return status_body(call.room, place, status, await call.room.state())

    @room_endpoint("DELETE /positions/{pid}", "operator")
    async def remove(self, call: AdminCall) -> None:
        """Remove a visitor from the line."""
        place = await call.room.get_place(call.request.slots["pid"])
        if not await call.room.remove(place, "admin_removed"):
            raise NotFound("there is nobody in line with that id")
        await call.note("remove", before=place.id)


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


class RoomAdmin(AdminRoutes):
    """Setting rooms up."""

    @endpoint(f"GET {ROOT}", fails=(400, 401, 403, 429, 503), scope="viewer")
    async def list_rooms(self, request: Request) -> Answer:
        """List the rooms that the key may see, with their numbers."""
        who = await self.context.operators.require(request, "viewer", request.query.get("queue"))
        rooms = list[dict[str, Any]]()
        for room, state in await self.context.rooms.states():
            if who.may("viewer", room.name):
                try:
                    rooms.append({**room_body(room, state), "stats": await numbers(room, state)})
                except StoreError as error:
                    # The others are shown all the same.
                    self.context.rooms.report(room, "stats", error)
        return answer({"queues": rooms})

    @endpoint(f"POST {ROOT}", takes=bodies.NewRoom, gives={201: dict}, scope="admin")
    async def create(self, request: Request) -> Answer:
        """Create a room."""
        operators = self.context.operators
        await operators.known(request)
        asked = await request.read(bodies.NewRoom, MOST_BODY)
        who = await operators.require(request, "admin", asked.id)
        if not is_name(asked.id):
            raise Problem(400, Code.INVALID_INPUT, "an id must be 1 to 64 of A-Z a-z 0-9 _ . -")
        room = self.context.rooms.of(asked.id)
        options, own = merged(RoomOptions(), asked.settings)
        try:
            await room.open(options, version=0, settings=own)
        except WrongState:
            raise Problem(409, Code.EXISTS, "there is a room of that name") from None
        await operators.note(who, "create", room.name, before=None, after=asked.settings)
        self.context.rooms.forget()
        return _versioned(room, await room.state(), 201)

    @room_endpoint("GET", "viewer", gives={200: dict})
    async def read_room(self, call: AdminCall) -> Answer:
        """The settings of a room."""
        return _versioned(call.room, await call.room.state())

    @room_endpoint("PATCH", "admin", gives={200: dict}, most=MOST_BODY)
    async def change(self, call: AdminCall, asked: dict[str, Any]) -> Answer:
        """Change a room's settings; with If-Match only if unchanged since."""
        before = await call.room.state()
        _require_version(call.request, before.version)
        # What is as it was is written as well: to set the rate ends its way to another one.
        fields = named(before.options, asked)
        try:
            after = await call.change(
                "change", lambda: call.room.store.write(fields, version=before.version)
            )
        except WrongState as error:
            raise Problem(412, Code.CHANGED_MEANWHILE, str(error)) from None
        return _versioned(call.room, after)

    @room_endpoint("DELETE", "admin")
    async def delete(self, call: AdminCall) -> None:
        """Delete an empty room with its codes, events and theme."""
        try:
            await call.room.delete()
        except WrongState as error:
            raise Problem(409, Code.NOT_EMPTY, str(error)) from None
        self.context.rooms.forget()
        await call.note("delete", before=call.room.name)

    @room_endpoint("GET /rules", "viewer")
    async def rules(self, call: AdminCall) -> dict[str, Any]:
        """The requests that the room protects."""
        return {"rules": stored_rules((await call.room.state()).fields.get("rules", ""))}

    @room_endpoint(
        "PUT /rules",
        "admin",
        query={"dry_run": {"type": "string", "enum": ["true"]}},
        most=MOST_BODY,
    )
    async def set_rules(self, call: AdminCall, asked: list[WrittenRule]) -> dict[str, Any]:
        """Change them; with ?dry_run=true only check them."""
        for rule in asked:
            if rule.header and ":" not in rule.header:
                raise InvalidOption(f"header must be `Name: part`, got {rule.header!r}")
            rule_of(call.room.name, rule)
        dry = call.request.query.get("dry_run")
        if dry not in (None, "true"):
            raise Problem(400, Code.MALFORMED, "dry_run must be true, or not be there")
        if dry is None:
            written = {"rules": codec.encode(asked).decode() if asked else ""}
            await call.change("rules", lambda: call.room.store.write(written))
        return {"rules": asked}


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


class Controls(AdminRoutes):
    """Pause, resume, faster, slower, a word to everybody."""

    @room_endpoint("POST /pause", "operator")
    async def pause(self, call: AdminCall) -> dict[str, Any]:
        """Stop admission; everybody keeps their place."""
        return await _steered(call, "pause", Control.pause)

    @room_endpoint("POST /resume", "operator")
    async def resume(self, call: AdminCall) -> dict[str, Any]:
        """Admit visitors again."""
        return await _steered(call, "resume", Control.resume)

    @room_endpoint("POST /queue-all", "operator")
    async def queue_all(self, call: AdminCall) -> dict[str, Any]:
        """Make every arrival wait and stop admission."""
        return await _steered(call, "queue-all", Control.queue_all)

    @room_endpoint("POST /drain", "operator")
    async def drain(self, call: AdminCall) -> dict[str, Any]:
        """Admit those in line, and let nobody join."""
        return await _steered(call, "drain", Control.drain)

    @room_endpoint("POST /close", "admin", most=MOST_BODY)
    async def close(self, call: AdminCall, asked: bodies.Ending) -> dict[str, Any]:
        """End the room; those in line read it, in words of the seller's where they are given."""
        return await _steered(call, "close", Control.close, text=asked.text, link=asked.link)

    @room_endpoint("POST /sold-out", "admin", most=MOST_BODY)
    async def sell_out(self, call: AdminCall, asked: bodies.Ending) -> dict[str, Any]:
        """End the room because nothing is left; those in line read that."""
        return await _steered(call, "sell-out", Control.sell_out, text=asked.text, link=asked.link)

    @room_endpoint("POST /fail-open", "admin")
    async def fail_open(self, call: AdminCall, asked: bodies.Minutes) -> dict[str, Any]:
        """Admit everybody who asks, for some minutes."""
        if asked.minutes > bodies.MOST_OPEN_MINUTES:
            raise InvalidOption(f"minutes must be at most {bodies.MOST_OPEN_MINUTES:g}")
        return await _steered(call, "fail-open", Control.fail_open, round(asked.minutes * 60))

    @room_endpoint("POST /rate", "operator")
    async def rate(self, call: AdminCall, asked: bodies.Rate) -> dict[str, Any]:
        """Change the admission rate, at once or over a ramp."""
        rate, ramp = asked.new_users_per_minute / 60, asked.ramp_seconds
        return await _steered(call, "rate", Control.set_rate, rate, ramp=ramp)

    @room_endpoint("POST /message", "operator", most=MOST_BODY)
    async def message(self, call: AdminCall, asked: bodies.Message) -> dict[str, Any]:
        """Show a message to all visitors, or remove it."""
        if not 0 <= asked.minutes <= bodies.LONGEST_MINUTES:
            raise InvalidOption(f"minutes must be 0 to {bodies.LONGEST_MINUTES}")
        now_ms = self.context.clock.now_ms()
        until = now_ms + round(asked.minutes * 60_000) if asked.minutes else 0
        said = {"level": asked.level, "expires_ms": until}
        return await _steered(call, "message", Control.show_message, asked.text, **said)

    @room_endpoint("POST /reset", "admin")
    async def reset(self, call: AdminCall, asked: bodies.Confirm) -> dict[str, Any]:
        """Revoke all tokens, confirmed by the room's name."""
        if asked.confirm != call.request.slots["id"]:
            raise Problem(422, Code.NOT_CONFIRMED, "confirm must be the name of the room")
        return await _steered(call, "reset", Control.revoke_everything)

    @room_endpoint("POST /admit", "operator")
    async def admit(self, call: AdminCall, asked: bodies.Admit) -> dict[str, Any]:
        """Admit some visitors now, regardless of the rate."""
        lane = None if asked.lane is None else Lane(asked.lane)
        called = await Admission(call.room).admit_now(asked.count, lane=lane)
        after = {"called": len(called.called), "waiting": called.waiting}
        await call.note("admit", after=after)
        return after


async def _steered(
    call: AdminCall, action: str, step: Callable[..., Awaitable[object]], *given: Any, **named: Any
) -> dict[str, Any]:
    after = await call.change(action, lambda: step(Control(call.room), *given, **named))
    return {"serving_state": serving_state(after), "version": after.version}


class EventAdmin(AdminRoutes):
    """The events of rooms."""

    @room_endpoint("GET /events", "viewer")
    async def every(self, call: AdminCall) -> bodies.Events:
        """List scheduled events, the next first."""
        state = await call.room.state()
        planned = [_planned(each, state) for each in await Schedule(call.room).planned()]
        return bodies.Events(events=planned)

    @room_endpoint("POST /events", "admin", status=201, most=MOST_BODY)
    async def plan(self, call: AdminCall, asked: bodies.NewEvent) -> bodies.PlannedEvent:
        """Schedule an event, with a pre-queue, a draw and settings while it lasts."""
        state = await call.room.state()
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
        schedule = Schedule(call.room)
        event = await schedule.plan(event)
        await schedule.keep()
        await call.note("plan-event", after=msgspec.to_builtins(event))
        return _planned(event, await call.room.state())

    @room_endpoint("GET /events/{event}", "viewer")
    async def look(self, call: AdminCall) -> bodies.PlannedEvent:
        """An event, and the room's settings as if it were on."""
        wanted, planned = call.request.slots["event"], await Schedule(call.room).planned()
        found = next((each for each in planned if each.id == wanted), None)
        if found is None:
            raise NotFound("there is no such event")
        return _planned(found, await call.room.state())

    @room_endpoint("DELETE /events/{event}", "admin")
    async def cancel(self, call: AdminCall) -> None:
        """Cancel an event, or end one that is on."""
        id = call.request.slots["event"]
        await Schedule(call.room).cancel(id)
        await call.note("cancel-event", before=id)


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
