"""Endpoints of waiting rooms."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import msgspec

from waystation.console.routes.calls import ROOT, Call, ConsoleRoutes, console_endpoint
from waystation.core.errors import InvalidOption
from waystation.core.http.endpoints import stated
from waystation.core.http.problems import Code, Problem
from waystation.waitingroom import Control, RoomState
from waystation.waitingroom.redis.store import STATE_S

ROOMS = f"{ROOT}/rooms"


class RoomView(msgspec.Struct, kw_only=True):
    """A waiting room."""

    name: str
    title: str
    status: str
    phase: str
    waiting: int
    lanes: tuple[int, int, int, int]
    early: int
    called: int
    inside: int
    seats: int
    rate_per_min: float
    """Admissions per minute that are allowed."""
    flow_per_min: float | None
    """Admissions per minute that were measured."""
    fail_open: bool
    served: bool
    """Whether a process lets people in."""
    message: str


class RoomList(msgspec.Struct, kw_only=True):
    """All rooms."""

    rooms: list[RoomView]


class RoomAct(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What to do to a room."""

    rate_per_min: Annotated[float | None, stated(minimum=0)] = None
    """For `rate` alone, which needs it: 0 stops the room, so nothing may stand for it."""
    reason: Annotated[str, stated(maxLength=500)] = ""


STEPS: dict[str, Callable[[Control, RoomAct], Awaitable[Any]]] = {
    "pause": lambda control, _: control.pause(),
    "resume": lambda control, _: control.resume(),
    "drain": lambda control, _: control.drain(),
    "rate": lambda control, asked: control.set_rate((asked.rate_per_min or 0) / 60),
}


class RoomRoutes(ConsoleRoutes):
    """Waiting rooms."""

    @console_endpoint(f"GET {ROOMS}", "viewer")
    async def every(self, call: Call) -> RoomList:
        """All waiting rooms."""
        # One that cannot be read is left out.
        states = await self.console.rooms.states(STATE_S)
        return RoomList(rooms=[_view(room.name, state) for room, state in states])

    @console_endpoint(f"GET {ROOMS}/{{room}}", "viewer")
    async def one(self, call: Call) -> RoomView:
        """One waiting room."""
        room = await self.console.rooms.find(call.request.slots["room"])
        return _view(room.name, await room.state())

    @console_endpoint(f"POST {ROOMS}/{{room}}/actions/{{action}}", "operator")
    async def act(self, call: Call, asked: RoomAct) -> RoomView:
        """Pause, resume or drain a room, or change its rate."""
        name, action = call.request.slots["room"], call.request.slots["action"]
        step = STEPS.get(action)
        if step is None:
            raise Problem(404, Code.NOT_FOUND, f"a room has {', '.join(STEPS)}")
        room = await self.console.rooms.find(name)
        if (action == "rate") is (asked.rate_per_min is None):
            raise InvalidOption("rate needs rate_per_min, and no other action takes it")
        await step(Control(room), asked)
        rate = {} if asked.rate_per_min is None else {"rate_per_min": asked.rate_per_min}
        after = {"reason": asked.reason, **rate}
        await call.note(action, name, after=after)
        return _view(name, await room.state())


def _view(name: str, state: RoomState) -> RoomView:
    options = state.options
    return RoomView(
        name=name,
        title=options.name,
        status=options.status.value,
        phase=state.phase,
        waiting=state.waiting,
        lanes=state.lanes,
        early=state.early,
        called=state.called,
        inside=state.inside,
        seats=options.max_active,
        rate_per_min=round(state.rate * 60, 3),
        flow_per_min=None if state.flow is None else round(state.flow * 60, 3),
        fail_open=state.fail_open,
        served=state.served,
        message=state.message,
    )
