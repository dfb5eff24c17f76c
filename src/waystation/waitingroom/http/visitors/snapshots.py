"""The public snapshot of a room, made once a second for all readers."""

import asyncio
import hashlib
from typing import NamedTuple

from msgspec.structs import astuple

from waystation.core import codec
from waystation.core.clock import Clock
from waystation.core.errors import StoreError
from waystation.core.http.endpoints import endpoint
from waystation.core.http.exchange import Answer, Message, Request, Scope
from waystation.waitingroom.estimates import estimate
from waystation.waitingroom.http.bodies import EtaModel, PollPolicy, SnapshotBody, rfc3339
from waystation.waitingroom.http.visitors.status import (
    CEILING_MS,
    DIVISOR,
    FLOOR_MS,
    notice,
    serving_state,
)
from waystation.waitingroom.room import Room
from waystation.waitingroom.rooms import Rooms
from waystation.waitingroom.state import RoomState
from waystation.waitingroom.visitor import Lane

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
