"""Alarms: what an operator wants to hear of before visitors complain."""

import math
from collections.abc import Mapping
from typing import Annotated

import msgspec

from waystation.core import codec
from waystation.core.errors import InvalidOption, Malformed, WrongState
from waystation.core.http.endpoints import stated
from waystation.core.options import check_fields, checked
from waystation.waitingroom.estimates import estimate
from waystation.waitingroom.room import Room
from waystation.waitingroom.state import RoomState
from waystation.waitingroom.visitor import Lane, Waiting

EVERY_S = 5.0
OVER = 0.8
"""An alarm is over below this share of its limit, so that it does not come and go."""
LEAST_CALLED = 20
"""People called in an hour before the share of no-shows says anything."""
LIMITS, RINGING = "alarm_limits", "alarms"
"""Fields of `meta`: the limits, and the alarms that are on with what they say."""
RAISED, CLEARED = "alarm", "alarm-over"
"""Events in the stream of the room."""


class AlarmOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits beyond which a room raises an alarm; 0 for none."""

    waiting: Annotated[int, stated(minimum=0)] = 0
    """People in line."""
    wait_minutes: Annotated[float, stated(minimum=0)] = 0.0
    """The wait of the last in line."""
    no_shows: Annotated[float, stated(minimum=0, exclusiveMaximum=1)] = 0.0
    """The share of those called in this hour who stayed away."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.waiting < 0:
            raise InvalidOption(f"waiting must be at least 0, got {self.waiting}")
        if not 0 <= self.wait_minutes < math.inf:
            raise InvalidOption(f"wait_minutes must be at least 0, got {self.wait_minutes}")
        if not 0 <= self.no_shows < 1:
            raise InvalidOption(f"no_shows must be from 0 to below 1, got {self.no_shows}")


@checked
class Alarms:
    """The alarms of one room; several processes may run them."""

    def __init__(self, room: Room) -> None:
        self._room = room

    async def set(self, options: AlarmOptions) -> int:
        """Raise alarms beyond these limits from now on; return the room's new version."""
        limits = codec.encode(options).decode() if options != AlarmOptions() else ""
        return await self._room.store.write({LIMITS: limits})

    async def keep(self) -> bool:
        """Raise what is due and clear what is over, in one look; False when nothing changed."""
        state = await self._room.state()
        options, ringing = limits_of(state), ringing_in(state)
        found = _found(options, state, await self._room.statistics(), ringing)
        if found.keys() == ringing.keys():
            return False
        event = CLEARED
        if found.keys() - ringing.keys():
            # One event says one thing: what is over at the same time is cleared by the next look.
            event, found = RAISED, {**ringing, **found}
        fields = {RINGING: codec.encode(found).decode() if found else ""}
        try:
            # Whoever changed the room meanwhile comes first; the next look is soon.
            await self._room.store.write(fields, event=event, version=state.version)
        except WrongState:
            return False
        return True


def limits_of(state: RoomState) -> AlarmOptions:
    """The limits of a room."""
    try:
        return codec.decode(state.fields.get(LIMITS) or "{}", AlarmOptions)
    except (Malformed, InvalidOption):
        return AlarmOptions()


def ringing_in(state: RoomState) -> dict[str, str]:
    """The alarms that are on, and what they say."""
    try:
        return codec.decode(state.fields.get(RINGING) or "{}", dict[str, str])
    except Malformed:
        return {}


def _found(
    options: AlarmOptions, state: RoomState, hour: Mapping[str, int], ringing: Mapping[str, str]
) -> dict[str, str]:
    """The alarms that are due, or not over yet."""
    last = Waiting(lane=Lane.NORMAL, seq=0, ahead=max(0, state.lanes[0] - 1), length=0)
    wait = estimate.wait(state, last) if state.waiting else None
    # A wait that nobody knows, in a room that does not move, is not over.
    unknown = math.inf if state.waiting and "wait" in ringing else 0.0
    minutes = wait.p50 / 60 if wait else unknown
    called, missed = hour.get("total_admitted", 0), hour.get("total_missed", 0)
    away = missed / called if called >= LEAST_CALLED else 0.0
    line = state.waiting + state.early
    values = {
        "waiting": (line, options.waiting, f"{line:,} people are in line"),
        "wait": (minutes, options.wait_minutes, f"the last in line waits {minutes:.0f} minutes"),
        "no_shows": (away, options.no_shows, f"{away:.0%} of those called stayed away"),
    }
    return {
        name: ringing.get(name, said)
        for name, (value, limit, said) in values.items()
        if limit and value >= limit * (OVER if name in ringing else 1)
    }
