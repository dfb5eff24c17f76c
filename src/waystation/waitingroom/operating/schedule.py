"""Schedule: events that open a room, change its options while they last, and end.

The room's `meta` names the event that is on and what was there before it, in one write with the
change itself. So whichever process looks next knows what has been done, and a crash in between
loses nothing.
"""

import secrets
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from waystation.core import codec
from waystation.core.durations import possible_instant
from waystation.core.errors import InvalidOption, NotFound, WrongState
from waystation.core.options import check_fields, checked
from waystation.waitingroom.operating.control import LATEST_MS
from waystation.waitingroom.operating.lottery import Lottery, checked_witness, commit
from waystation.waitingroom.options import fitting
from waystation.waitingroom.redis import scripts
from waystation.waitingroom.room import Room
from waystation.waitingroom.state import RoomState

MOST_EVENTS = 100
CURRENT, STAGE, BEFORE = "event", "event_stage", "event_before"
"""Fields of `meta`: the event that is on, how far it has come, and what it changed."""


class ScheduledEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a room."""

    id: str
    """Its id in the plan of the room."""
    starts_ms: int
    """When it begins, in milliseconds since 1970."""
    ends_ms: int
    """When it ends, in milliseconds since 1970."""
    name: str = ""
    """What operators call it."""
    gathers_ms: int | None = None
    """When the pre-queue opens; None to open without one."""
    by_lot: bool = False
    """Draw the order of the pre-queue by lot."""
    witness: str = ""
    """The digest of a second party's secret that the draw waits for; empty for none."""
    commitment: str = ""
    """The digest of the seed that the draw will be held with, known from the planning on."""
    changes: dict[str, str] = {}
    """Fields of `meta` that are different during the event."""

    def __post_init__(self) -> None:
        check_fields(self)
        if not 0 <= self.begins_ms <= self.starts_ms < self.ends_ms <= LATEST_MS:
            named = ("gathers", self.gathers_ms), ("starts", self.starts_ms), ("ends", self.ends_ms)
            got = [f"{name} {possible_instant(ms) or ms}" for name, ms in named if ms is not None]
            raise InvalidOption(
                "an event must gather before it starts and start before it ends, until 2999, "
                f"got {', '.join(got)}"
            )
        if self.by_lot and self.gathers_ms is None:
            raise InvalidOption("lots need people who gather before the start")
        if self.witness:
            if not self.by_lot:
                raise InvalidOption("a witness needs lots to be drawn")
            checked_witness(self.witness)

    @property
    def begins_ms(self) -> int:
        """The instant it first changes the room."""
        return self.starts_ms if self.gathers_ms is None else self.gathers_ms


@checked
class Schedule:
    """The events of one room."""

    def __init__(self, room: Room) -> None:
        self._room = room

    async def planned(self) -> list[ScheduledEvent]:
        """All events that have not ended, the earliest first."""
        raw: Sequence[bytes] = await self._ask("HVALS")
        return sorted(
            (codec.decode(each, ScheduledEvent) for each in raw), key=lambda e: e.begins_ms
        )

    async def plan(self, event: ScheduledEvent) -> ScheduledEvent:
        """Add an event, which must not overlap another; with the commitment of its draw."""
        seen = await self._room.state()
        fitting(seen.fields, event.changes)
        if event.ends_ms <= seen.now_ms:
            # It would be taken away at the next look, without having been on.
            ended = possible_instant(event.ends_ms) or event.ends_ms
            raise InvalidOption(f"an event must end in the future, got {ended}")
        seed = await self._seed(event.id) if event.by_lot else ""
        if seed:
            # Chosen now, so that anybody may note what the draw is held by.
            event = msgspec.structs.replace(event, commitment=commit(seed))
        await scripts.plan(
            await self._room.store.client(),
            self._room.store.keys,
            id=event.id,
            event=codec.encode(event).decode(),
            seed=seed,
            begins=event.begins_ms,
            ends=event.ends_ms,
            most=MOST_EVENTS,
        )
        return event

    async def _seed(self, id: str) -> str:
        """The seed of an event's draw, or a new one."""
        kept = await self._room.store.ask("HGET", self._room.store.keys.state, f"seed:{id}")
        return kept.decode() if kept else secrets.token_hex(32)

    async def cancel(self, id: str) -> None:
        """Remove a planned event, or end one that is on; NotFound when there is none."""
        seen = await self._room.state()
        if seen.fields.get(CURRENT) == id:
            if seen.phase != "open":
                raise WrongState("people have gathered for it; let it start, then end it")
            # Whoever changes the room meanwhile comes first; off the plan, the next look ends it.
            with suppress(WrongState):
                await self._end(seen, id)
        elif not await self._ask("HDEL", id):
            raise NotFound(f"there is no event {id}")
        await self._forget_seed(id)

    async def keep(self) -> None:
        """Begin due events and end those that are over, in one bounded step."""
        # In this order: what is called off in between is seen to be on or is not planned any more.
        seen = await self._room.state()
        events = {each.id: each for each in await self.planned()}
        current = seen.fields.get(CURRENT, "")
        try:
            if current:
                await self._go_on(seen, current, events.get(current))
            elif due := next((e for e in events.values() if e.begins_ms <= seen.now_ms), None):
                await self._begin(seen, due)
                # It may have been called off meanwhile, so it is looked for again.
                await self.keep()
        except WrongState:
            # Another process was faster; the next pass sees what it did.
            return

    async def _begin(self, seen: RoomState, event: ScheduledEvent) -> None:
        if event.ends_ms <= seen.now_ms:
            await self._ask("HDEL", event.id)
            await self._forget_seed(event.id)
            return
        # The room may have been changed since the event was planned.
        changes = fitting(seen.fields, event.changes)
        before = {name: seen.fields.get(name, "") for name in changes}
        await self._room.store.write(
            {
                **changes,
                CURRENT: event.id,
                BEFORE: codec.encode(before).decode(),
                "ends_us": str(event.ends_ms * 1000),
            },
            version=seen.version,
        )

    async def _go_on(self, seen: RoomState, id: str, event: ScheduledEvent | None) -> None:
        if event is not None and event.gathers_ms is not None and not seen.fields.get(STAGE):
            await self._gather(seen, event)
        elif seen.phase == "open" and (event is None or event.ends_ms <= seen.now_ms):
            await self._end(seen, id)

    async def _gather(self, seen: RoomState, event: ScheduledEvent) -> None:
        if event.by_lot:
            seed = await self._seed(event.id)
            await Lottery(self._room).announce(seed, witness=event.witness, version=seen.version)
            seen = await self._room.state()
            if seen.fields.get(STAGE) or seen.fields.get(CURRENT) != event.id:
                return
        starts = {"phase": "prequeue", "starts_us": str(event.starts_ms * 1000)}
        await self._room.store.write({**starts, STAGE: "gathered"}, version=seen.version)

    async def _end(self, seen: RoomState, id: str) -> None:
        before = codec.decode(seen.fields.get(BEFORE, "{}"), dict[str, str])
        over = dict.fromkeys((CURRENT, STAGE, BEFORE, "starts_us", "ends_us", "commitment"), "")
        # What was changed during the event stays, and what was there before must fit to it.
        back = fitting(seen.fields, before)
        # Off the plan first: a room without an event begins whatever is planned for now.
        await self._ask("HDEL", id)
        await self._room.store.write({**back, **over}, version=seen.version)
        await self._forget_seed(id)

    async def _forget_seed(self, id: str) -> None:
        await self._room.store.ask("HDEL", self._room.store.keys.state, f"seed:{id}")

    async def _ask(self, verb: str, *parts: Any) -> Any:
        return await self._room.store.ask(verb, self._room.store.keys.schedule, *parts)


async def next_draw(room: Room) -> ScheduledEvent | None:
    """The next planned event that draws lots, whose commitment is public; None for none."""
    planned = await Schedule(room).planned()
    return next((each for each in planned if each.by_lot and each.commitment), None)
