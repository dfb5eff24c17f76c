"""The status of a visitor: one by one, as a snapshot for all, and as a stream."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import astuple, replace

from waystation.core import codec
from waystation.core.clock import Clock
from waystation.core.durations import seconds
from waystation.core.errors import Malformed, StoreError
from waystation.core.http.addresses import client_of
from waystation.core.http.endpoints import endpoint
from waystation.core.http.exchange import Answer, Message, Request, Scope, Stream
from waystation.core.http.problems import Problem
from waystation.waitingroom.estimates import estimate
from waystation.waitingroom.http.bodies import (
    Ending,
    EstimatedWait,
    EtaModel,
    Notice,
    PlaceBody,
    PollPolicy,
    SnapshotBody,
    rfc3339,
)
from waystation.waitingroom.http.context import TicketLookup
from waystation.waitingroom.http.options import RoomCode, ServerOptions
from waystation.waitingroom.options import Status
from waystation.waitingroom.redis.store import STATE_S
from waystation.waitingroom.room import Room
from waystation.waitingroom.rooms import Rooms
from waystation.waitingroom.state import RoomState
from waystation.waitingroom.visitor import (
    Called,
    Gone,
    Inside,
    Lane,
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
    body = replace(_same_for_all(name, state), position_id=place.id, status=word_of(status))
    wait = estimate.wait(state, status)
    if wait is not None:
        body.estimated_wait = EstimatedWait(
            known=True, p10=round(wait.p10, 1), p50=round(wait.p50, 1), p90=round(wait.p90, 1)
        )
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


FRESH_S = 1.0
STALE_S = 120.0
"""How long the last one is shown while the store is away."""
CACHED = (b"cache-control", b"public, max-age=1, stale-while-revalidate=5")


class Snapshots:
    """Keeps the snapshot of each room for a second; while one is made, everybody waits for it."""

    def __init__(self, rooms: Rooms, clock: Clock) -> None:
        self._rooms = rooms
        self._clock = clock
        self._kept: dict[str, _Kept] = {}
        self._making: dict[str, asyncio.Task[_Kept]] = {}

    def fresh_answer(self, scope: Scope) -> tuple[Message, Message] | None:
        """The messages of the answer, if this asks for one that is fresh and knows none yet."""
        kept = self._kept.get(scope["path"])
        if kept is None or scope["method"] != "GET" or self._is_old(kept):
            return None
        for name, _ in scope["headers"]:
            if name == b"if-none-match":
                return None
        return kept.messages

    @endpoint(
        "GET /api/v1/queues/{id}/snapshot", gives={200: SnapshotBody, 304: None}, fails=(404, 503)
    )
    async def answer(self, request: Request) -> Answer:
        """The public state of the room."""
        path = request.path
        kept = self._kept.get(path)
        if kept is None or self._is_old(kept):
            if path not in self._making:
                self._making[path] = asyncio.create_task(self._make(path, request.slots["id"]))
                self._making[path].add_done_callback(lambda _: self._making.pop(path))
            try:
                kept = await asyncio.shield(self._making[path])
            except StoreError:
                # It says itself when it was made, and is better than nothing for a while.
                if kept is None or self._age_s(kept) > STALE_S:
                    raise
                return self._stale(kept)
        found = kept.answer
        asked = request.headers.get(b"if-none-match")
        if asked is not None and found.headers[1][1] == asked:
            return Answer(304, headers=found.headers)
        return found

    def _is_old(self, kept: "_Kept") -> bool:
        return self._age_s(kept) > FRESH_S

    def _age_s(self, kept: "_Kept") -> float:
        return self._clock.monotonic() - kept.since

    def _stale(self, kept: "_Kept") -> Answer:
        age = (b"age", b"%d" % int(self._age_s(kept)))
        return Answer(200, kept.answer.body, headers=[*kept.answer.headers, age])

    async def _make(self, path: str, name: str) -> "_Kept":
        room = await self._rooms.find(name)
        state, curve = await asyncio.gather(room.state(), room.curve())
        raw = codec.encode(snapshot_of(room, state, curve))
        tag = b'"' + hashlib.sha256(raw).hexdigest()[:16].encode() + b'"'
        made = Answer(200, raw, headers=[CACHED, (b"etag", tag)])
        self._kept[path] = _Kept(self._clock.monotonic(), made, made.messages())
        return self._kept[path]


class _Kept(NamedTuple):
    since: float
    answer: Answer
    messages: tuple[Message, Message]


def snapshot_of(room: Room, state: RoomState, curve: list[list[tuple[int, int]]]) -> SnapshotBody:
    """The room as anybody may see it."""
    now_us = state.now_ms * 1000
    return SnapshotBody(
        queue_id=room.name,
        phase=state.phase,
        serving_state=serving_state(state),
        now=rfc3339(state.now_ms),
        serving=[points[0][0] - 1 if points else now_us for points in curve],
        curve=curve,
        rate_per_minute=round(state.rate * 60, 3),
        eta_model=eta_model_of(state),
        waiting=state.waiting + state.early,
        active=state.inside,
        message=notice(state),
        poll_policy=PollPolicy(floor_ms=FLOOR_MS, ceiling_ms=CEILING_MS, divisor=DIVISOR),
        event={
            "starts_at": rfc3339(state.starts_ms) if state.starts_ms else None,
            "ends_at": rfc3339(state.ends_ms) if state.ends_ms else None,
            "commit": state.fields.get("commitment"),
        },
    )


def eta_model_of(state: RoomState) -> EtaModel:
    """What it takes to tell everybody in line the wait that their status would tell them."""
    model = estimate.model_of(state)
    lanes = [estimate.forecast(state, lane) for lane in Lane]
    return EtaModel(
        mu=[_brief(each.spread.rate) if each else 0.0 for each in lanes],
        before=[_brief(each.before) if each else 0.0 for each in lanes],
        theta=model.theta,
        f10=model.f10,
        f50=model.f50,
        f90=model.f90,
        points=[astuple(point) for point in model.points or (model.everywhere,)],
        by_lot=[astuple(each.by_lot) if each and each.by_lot else None for each in lanes],
        v=model.version,
    )


def _brief(number: float) -> float:
    return float(f"{number:.6g}")


EVERY_S = 1.0
LONGEST_S = 300.0
"""After this long the browser comes again by itself, which spreads streams over processes."""


class Streams:
    """Lets those near the front follow their place."""

    def __init__(self, holders: TicketLookup, options: ServerOptions, clock: Clock) -> None:
        self._holders = holders
        self._options = options
        self._clock = clock
        self._open = Counter[str]()
        """Streams by the place that they follow."""
        self._from = Counter[str]()
        """Streams by the client that they go to."""

    @endpoint(
        "GET /api/v1/queues/{id}/events", gives={200: None, 204: None}, fails=(400, 401, 404, 503)
    )
    async def answer(self, request: Request) -> Answer:
        """Follow the visitor's place as server-sent events."""
        room, _, place = await self._holders.find(request)
        status = await room.status(place)
        client = client_of(request.address)
        if not self._has_room(place, client) or not self._is_near(status):
            return Answer(204, headers=[(b"retry-after", b"30")])
        # Counted now: many that are asked for at once must not all find room.
        self._open[place.id] += 1
        self._from[client] += 1
        return Stream(
            events=self._follow(room, place),
            done=lambda: self._close(place, client),
            gone=request.gone,
        )

    def _has_room(self, place: Place, client: str) -> bool:
        """Whether one more may follow; whoever may not looks now and then, as those behind do."""
        options = self._options
        return (
            self._open.total() < options.streams
            and self._open[place.id] < options.streams_each
            and self._from[client] < options.streams_client
        )

    def _close(self, place: Place, client: str) -> None:
        for counted, who in ((self._open, place.id), (self._from, client)):
            counted[who] -= 1
            if counted[who] <= 0:
                del counted[who]

    def _is_near(self, status: VisitorStatus) -> bool:
        match status:
            case Waiting(ahead=ahead) | Returned(ahead=ahead):
                return ahead < self._options.front
            case Called():
                return True
            case _:
                return False

    async def _follow(self, room: Room, place: Place) -> AsyncIterator[tuple[str, Any]]:
        until = self._clock.monotonic() + LONGEST_S
        before: object = None
        while self._clock.monotonic() < until:
            try:
                status = await room.status(place)
                state = await room.state(max_age=STATE_S)
            except StoreError:
                yield "trouble", {}
                return
            if is_over(state) and not isinstance(status, Called | Inside):
                yield (
                    "over",
                    {
                        "code": OVER[serving_state(state)][0],
                        "ending": msgspec.to_builtins(ending(state)),
                    },
                )
                return
            body = status_body(room, place, status, state)
            current = (body.status, body.people_ahead, body.serving_state, body.message)
            if current != before:
                before = current
                yield _name_of(status), msgspec.to_builtins(body)
            if not isinstance(status, Waiting | Returned):
                return
            await asyncio.sleep(EVERY_S)


def _name_of(status: VisitorStatus) -> str:
    word = word_of(status)
    return "position" if word in ("waiting", "returned") else word
