"""Operator routes to create, change and delete rooms."""

from typing import Any

from waystation.core import codec
from waystation.core.errors import InvalidOption, WrongState
from waystation.core.http.endpoints import endpoint
from waystation.core.http.exchange import Answer, Request, answer
from waystation.core.http.problems import Code, Problem
from waystation.waitingroom.http.admin import bodies
from waystation.waitingroom.http.admin.context import FAILS, MOST_BODY, ROOT, AdminContext
from waystation.waitingroom.http.admin.merging import OWN, merged
from waystation.waitingroom.http.admin.overview import numbers
from waystation.waitingroom.http.bodies import rfc3339
from waystation.waitingroom.http.keys import HttpKeys
from waystation.waitingroom.http.visitors.status import serving_state
from waystation.waitingroom.options import RoomOptions
from waystation.waitingroom.room import Room
from waystation.waitingroom.rooms import is_name
from waystation.waitingroom.rules import WrittenRule, rule_of, stored_rules
from waystation.waitingroom.state import RoomState


class RoomAdmin:
    """Setting rooms up."""

    def __init__(self, context: AdminContext) -> None:
        self._context = context
        self._rooms = context.rooms

    @endpoint(f"GET {ROOT}", fails=(400, 401, 403, 429, 503), scope="viewer")
    async def list_rooms(self, request: Request) -> Answer:
        """List the rooms that the key may see, with their numbers."""
        who = await self._context.operators.require(request, "viewer", request.query.get("queue"))
        rooms = [
            {**room_body(room, state), "stats": await numbers(room)}
            for room, state in await self._rooms.states()
            if who.may("viewer", room.name)
        ]
        return answer({"queues": rooms})

    @endpoint(f"POST {ROOT}", takes=bodies.NewRoom, gives={201: dict}, fails=FAILS, scope="admin")
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

    @endpoint(f"GET {ROOT}/{{id}}", fails=FAILS, scope="viewer")
    async def read_room(self, request: Request) -> Answer:
        """The settings of a room."""
        room, _ = await self._context.allowed(request, "viewer")
        return _versioned(room, await room.state())

    @endpoint(f"PATCH {ROOT}/{{id}}", takes=dict, fails=FAILS, scope="admin")
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

    @endpoint(f"DELETE {ROOT}/{{id}}", gives={204: None}, fails=FAILS, scope="admin")
    async def delete(self, request: Request) -> Answer:
        """Delete an empty room with its codes, events and theme."""
        room, who = await self._context.allowed(request, "admin")
        http = HttpKeys(room.queue_id)
        try:
            await room.delete(also=(http.looks, http.hooks, http.hook_states))
        except WrongState as error:
            raise Problem(409, Code.NOT_EMPTY, str(error)) from None
        self._rooms.forget()
        await self._context.note(who, "delete", room, before=room.name, after=None)
        return Answer(204)

    @endpoint(f"GET {ROOT}/{{id}}/rules", fails=FAILS, scope="viewer")
    async def rules(self, request: Request) -> Answer:
        """The requests that the room protects."""
        room, _ = await self._context.allowed(request, "viewer")
        state = await room.state()
        return answer({"rules": stored_rules(state.fields.get("rules", ""))})

    @endpoint(
        f"PUT {ROOT}/{{id}}/rules",
        takes=list[WrittenRule],
        query={"dry_run": {"type": "string", "enum": ["true"]}},
        fails=FAILS,
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
