"""Why a visitor, or a waiting room, does not move."""

from contextlib import aclosing
from typing import Any

from waystation.console.why.answer import Answer, Cause, Finding, at, between, count, iso
from waystation.console.why.recent import events_of, newest
from waystation.core.errors import NotFound
from waystation.core.events import Product
from waystation.core.operators.operators import OperatorKeys
from waystation.core.store.connection import Store
from waystation.waitingroom.estimates import estimate
from waystation.waitingroom.options import Status
from waystation.waitingroom.room import Room
from waystation.waitingroom.state import RoomState
from waystation.waitingroom.visitor import (
    Called,
    Gone,
    Inside,
    Late,
    Place,
    Prequeued,
    Returned,
    VisitorStatus,
    Waiting,
)

_STOPPED = {
    Status.PAUSED: (Cause.PAUSED, "is paused"),
    Status.QUEUE_ALL: (Cause.PAUSED, "lets nobody in (queue all)"),
    Status.MAINTENANCE: (Cause.PAUSED, "is under maintenance"),
    Status.CLOSED: (Cause.CLOSED, "is closed"),
    Status.SOLD_OUT: (Cause.CLOSED, "is sold out"),
}


async def visitor(store: Store, name: str, id: str) -> Answer | None:
    """Why a visitor is where they are; None when the room knows nothing of them."""
    room = Room(name, store)
    try:
        state = await room.state()
    except NotFound:
        return None
    found = await _visitor(store, room, state, id, await room.status(Place(id, "")))
    return None if found is None else found.about(Product.WAITINGROOM, room.name, "visitor", id)


async def room(store: Store, name: str) -> Answer | None:
    """Why a room lets nobody in, or that it does; None when there is no such room."""
    opened = Room(name, store)
    try:
        state = await opened.state()
    except NotFound:
        return None
    found = await _stopped(store, opened, state) or _moves(state)
    return found.about(Product.WAITINGROOM, opened.name, "queue", opened.name)


async def _visitor(
    store: Store, room: Room, state: RoomState, id: str, status: VisitorStatus
) -> Finding | None:
    facts = _facts(state)
    match status:
        case Inside(until_ms=until):
            text = f"is inside; the session ends at {at(until)} unless activity renews it"
            return Finding(Cause.INSIDE, text, facts, until_ms=until)
        case Called(until_ms=until):
            text = f"was called in and has not claimed the turn, which ends at {at(until)}"
            return Finding(Cause.CALLED, text, facts, until_ms=until)
        case Late(until_ms=until):
            text = f"missed the turn, and can take it back until {at(until)}"
            return Finding(Cause.MISSED, text, facts, until_ms=until)
        case Prequeued(starts_ms=starts):
            when = f"opens at {at(starts)}" if starts else "has not opened yet"
            lots = state.fields.get("commitment")
            order = "places are drawn then" if lots else "who came first is called first"
            text = f"waits because the room {when}; {order}"
            return Finding(Cause.CLOSED, text, facts, until_ms=starts)
        case Waiting() | Returned():
            return await _waiting(store, room, state, status)
        case Gone():
            return await _gone(store, room, id)


async def _waiting(
    store: Store, room: Room, state: RoomState, status: Waiting | Returned
) -> Finding:
    facts = _facts(state) | {"ahead": status.ahead}
    if stopped := await _stopped(store, room, state):
        return Finding(
            stopped.cause,
            f"waits because the room {stopped.text}; the place is kept",
            facts | stopped.evidence,
            until_ms=stopped.until_ms,
        )
    others = f"behind {count(status.ahead, 'other')}" if status.ahead else "as the next one"
    expected = estimate.wait(state, status)
    takes = f", about {between(expected.p10, expected.p90)}" if expected else ""
    full = state.inside + state.called >= state.options.max_active
    if full:
        text = f"waits {others}{takes}; all {state.options.max_active:,} seats are taken"
        return Finding(Cause.FULL, text, facts)
    if state.rate <= 0:
        text = f"waits {others}, and the room admits 0 a second"
        return Finding(Cause.LIMITED, text, facts)
    text = f"waits {others}{takes}; the room admits {state.rate:g} a second"
    cause = Cause.BEHIND if status.ahead else Cause.READY
    return Finding(cause, text, facts)


async def _stopped(store: Store, room: Room, state: RoomState) -> Finding | None:
    """What keeps everybody out, if something does."""
    if stop := _STOPPED.get(state.options.status):
        cause, text = stop
        since = await _since(store, room, state.options.status)
        return Finding(cause, f"{text}{since.pop('text', '')}", since)
    if state.phase == "ended":
        text = f"is closed: it ended at {at(state.ends_ms)}"
        return Finding(Cause.CLOSED, text)
    if state.phase != "open":
        when = f"opens at {at(state.starts_ms)}" if state.starts_ms else "has not opened yet"
        return Finding(Cause.CLOSED, when, until_ms=state.starts_ms)
    if not state.served:
        since = f" since {at(state.served_ms)}" if state.served_ms else ""
        text = f"is served by no process{since}; `waystation room serve` lets people in"
        return Finding(Cause.NOBODY, text, {"served_ms": state.served_ms})
    return None


def _moves(state: RoomState) -> Finding:
    facts, options = _facts(state), state.options
    if not state.waiting:
        text = f"has nobody in line; {count(state.inside, 'visitor')} inside"
        return Finding(Cause.EMPTY, text, facts)
    if state.inside + state.called >= options.max_active:
        text = f"is full: all {options.max_active:,} seats are taken, {state.waiting:,} wait"
        return Finding(Cause.FULL, text, facts)
    if state.rate <= 0:
        text = f"admits 0 a second, and {state.waiting:,} wait"
        return Finding(Cause.LIMITED, text, facts)
    text = f"admits {state.rate:g} a second; {state.waiting:,} wait and {state.inside:,} are inside"
    return Finding(Cause.WORKING, text, facts)


async def _since(store: Store, room: Room, status: Status) -> dict[str, Any]:
    """Since when, and by whom, as far as the events and the audit log tell."""
    events, became = room.store.keys.events, f"status={status.value}"
    # A change of the settings may stop a room, too, and its event has another name.
    last = await newest(store.hot, events, lambda event: became in event.get("changed", "").split())
    if last is None:
        return {}
    by = await _who(store, room.name, last[0])
    return {
        "text": f"{f', by {by},' if by else ''} since {at(last[0])}",
        "paused_at": iso(last[0]),
        "paused_by": by or None,
    }


_NOTED_WITHIN_MS = 60_000.0


async def _who(store: Store, name: str, at_ms: float) -> str:
    """Whoever the audit log names for a change at that instant: the first to be named after it."""
    who = ""
    async with aclosing(events_of(store.hot, OperatorKeys().audit)) as entries:
        async for noted_ms, entry in entries:
            if noted_ms < at_ms:
                break
            if noted_ms - at_ms <= _NOTED_WITHIN_MS and entry.get("queue") == name:
                who = entry.get("who", "")
    return who


_ENDS = {
    "completed": (Cause.COMPLETED, "was inside, and is done"),
    "cancelled": (Cause.CANCELLED, "was inside until an operator ended the session"),
    "left": (Cause.REMOVED, "left the line"),
    "removed": (Cause.REMOVED, "was removed from the line by an operator"),
    "expired": (Cause.REMOVED, "lost the place"),
    "missed": (Cause.MISSED, "missed the turn"),
    "refused": (Cause.REMOVED, "was refused"),
}


async def _gone(store: Store, room: Room, id: str) -> Finding | None:
    last = await newest(store.hot, room.store.keys.events, lambda event: event.get("subject") == id)
    if last is None:
        return None
    at_ms, event = last
    name, why = event.get("event", ""), event.get("reason", "")
    cause, did = _ENDS.get(name, (Cause.REMOVED, f"is gone; the last event was {name}"))
    reason = _REASONS.get(why, why)
    text = f"{did}{f' ({reason})' if reason else ''} at {at(at_ms)}"
    facts = {"event": name, "at": iso(at_ms), "reason": reason or None}
    return Finding(cause, text, facts)


_REASONS = {"silent": "the browser was not heard any more", "missed": "the turn was missed"}


def _facts(state: RoomState) -> dict[str, Any]:
    return {
        "status": state.options.status.value,
        "waiting": state.waiting,
        "inside": state.inside,
        "seats": state.options.max_active,
        "rate": state.rate,
    }
