"""A visitor's status as JSON."""

from copy import copy
from functools import lru_cache

import msgspec

from waystation.core import codec
from waystation.core.durations import seconds
from waystation.core.errors import Malformed
from waystation.core.http.problems import Problem
from waystation.waitingroom.estimates import estimate
from waystation.waitingroom.http.bodies import Ending, EstimatedWait, Notice, PlaceBody, rfc3339
from waystation.waitingroom.http.codes import RoomCode
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

FLOOR_MS = 3000
CEILING_MS = 60_000
DIVISOR = 10


def status_body(room: Room, place: Place, status: VisitorStatus, state: RoomState) -> PlaceBody:
    """The status of one visitor."""
    name = room.name
    body = copy(_same_for_all(name, state))
    body.position_id = place.id
    body.status = word_of(status)
    wait = estimate.wait(state, status)
    if wait is not None:
        body.estimated_wait = _wait_body(wait)
        body.poll_after_ms = poll_after_ms(wait)
    match status:
        case Waiting(lane=lane, seq=seq, ahead=ahead, length=length):
            body.lane, body.seq, body.people_ahead = int(lane), seq, ahead
            body.position, body.queue_length = ahead + 1, length
            if state.phase == "prequeue" and state.starts_ms:
                body.starts_at = rfc3339(state.starts_ms)
        case Prequeued(lane=lane, starts_ms=starts_ms, early=early):
            body.lane, body.queue_length = int(lane), early
            body.starts_at = rfc3339(starts_ms) if starts_ms else None
        case Returned(ahead=ahead):
            body.people_ahead, body.position = ahead, ahead + 1
        case Called(until_ms=until_ms):
            body.claim_deadline = rfc3339(until_ms)
            body.claim_url = f"/api/v1/queues/{name}/claim"
        case Inside(until_ms=until_ms):
            body.expires_at = rfc3339(until_ms)
            body.claim_url = f"/api/v1/queues/{name}/claim"
        case Late(until_ms=until_ms):
            body.recoverable_until = rfc3339(until_ms)
        case Gone():
            pass
    return body


@lru_cache(maxsize=64)
def _same_for_all(name: str, state: RoomState) -> PlaceBody:
    """What is the same for everybody who asks at that moment; the rest is filled in."""
    return PlaceBody(
        queue_id=name,
        position_id="",
        status="",
        serving_state=serving_state(state),
        estimated_wait=EstimatedWait(known=False),
        poll_after_ms=poll_after_ms(None),
        heartbeat_after_ms=round(seconds(state.options.idle) * 400),
        message=notice(state),
        status_url=f"/api/v1/queues/{name}/status",
        snapshot_url=f"/api/v1/queues/{name}/snapshot",
    )


_WORDS: dict[type, str] = {
    Prequeued: "prequeued",
    Waiting: "waiting",
    Returned: "returned",
    Called: "admitted",
    Inside: "active",
    Late: "missed",
    Gone: "gone",
}


def word_of(status: VisitorStatus) -> str:
    """A status in one word."""
    return _WORDS[type(status)]


@lru_cache(maxsize=64)
def serving_state(state: RoomState) -> str:
    """What the room does, in one word."""
    if state.options.status in (Status.CLOSED, Status.SOLD_OUT):
        return state.options.status.value
    if state.fail_open:
        return "fail_open"
    if state.phase in ("prequeue", "drawing"):
        return "prequeue"
    match state.options.status:
        case Status.ACTIVE:
            return "running"
        case Status.DRAINING:
            return "draining"
        case _:
            return "paused"


OVER = {
    "closed": (RoomCode.ENDED, "it is over"),
    "sold_out": (RoomCode.SOLD_OUT, "it is sold out"),
}
"""The states of a room that has ended: its code, and what that means."""


def is_over(state: RoomState) -> bool:
    """Whether the room has ended, and with it the places of those in line."""
    return serving_state(state) in OVER


def require_open(state: RoomState, status: VisitorStatus | None = None) -> None:
    """Raise a Problem if the room has ended, except for those whose turn had come."""
    if is_over(state) and not isinstance(status, Called | Inside):
        code, detail = OVER[serving_state(state)]
        raise Problem(410, code, detail, ending=msgspec.to_builtins(ending(state)))


def ending(state: RoomState) -> Ending:
    """What the seller says when the room is over, and where to go on."""
    try:
        return codec.decode(state.fields.get("ending") or "{}", Ending)
    except Malformed:
        return Ending()


@lru_cache(maxsize=64)
def notice(state: RoomState) -> Notice | None:
    """What the operator says, while it counts."""
    if not state.message:
        return None
    try:
        found = codec.decode(state.message, Notice)
    except Malformed:
        return None
    over = found.expires_at_ms and found.expires_at_ms <= state.now_ms
    return None if over else found


def poll_after_ms(wait: estimate.Wait | None) -> int:
    """When to look again: rarely when there is long to go."""
    if wait is None:
        return 15_000
    return int(min(CEILING_MS, max(FLOOR_MS, wait.p50 * 1000 / DIVISOR)))


def _wait_body(wait: estimate.Wait) -> EstimatedWait:
    return EstimatedWait(
        known=True, p10=round(wait.p10, 1), p50=round(wait.p50, 1), p90=round(wait.p90, 1)
    )
