"""Live news for the front of the line, as server-sent events."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from waystation.core import codec
from waystation.core.errors import StoreError
from waystation.interfaces.api.desk import Desk
from waystation.interfaces.api.http.endpoints import endpoint
from waystation.interfaces.api.http.exchange import NO_STORE, Answer, Request, Send
from waystation.interfaces.api.visitors.telling import standing_body, word_of
from waystation.queues.waitingroom.room import Room
from waystation.queues.waitingroom.visitor import Called, Place, Returned, Standing, Waiting

EVERY_S = 1.0
LONGEST_S = 300.0
"""After this long the browser comes again by itself, which spreads streams over processes."""


class Stream(Answer, frozen=True):
    """An answer that goes on."""

    events: AsyncIterator[tuple[str, Any]] | None = None

    async def send(self, send: Send) -> None:
        """Send events until there are none."""
        headers = [(b"content-type", b"text/event-stream"), NO_STORE, (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        assert self.events is not None  # noqa: S101
        async for name, body in self.events:
            text = b"event: %s\ndata: %s\n\n" % (name.encode(), codec.encode(body))
            await send({"type": "http.response.body", "body": text, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


class Streams:
    """Lets those near the front follow their place."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._open = 0

    @endpoint(
        "GET /api/v1/queues/{id}/events", gives={200: None, 204: None}, fails=(400, 401, 404, 503)
    )
    async def answer(self, request: Request) -> Answer:
        """Follow my place live."""
        room, _, place = await self._desk.holder(request)
        standing = await room.status(place)
        if self._open >= self._desk.options.streams or not self._is_near(standing):
            return Answer(204, headers=[(b"retry-after", b"30")])
        return Stream(events=self._follow(room, place))

    def _is_near(self, standing: Standing) -> bool:
        match standing:
            case Waiting(ahead=ahead) | Returned(ahead=ahead):
                return ahead < self._desk.options.front
            case Called():
                return True
            case _:
                return False

    async def _follow(self, room: Room, place: Place) -> AsyncIterator[tuple[str, Any]]:
        self._open += 1
        try:
            until = self._desk.clock.monotonic() + LONGEST_S
            before: object = None
            while self._desk.clock.monotonic() < until:
                try:
                    standing = await room.status(place)
                    pulse = await self._desk.pulse(room)
                except StoreError:
                    yield "trouble", {}
                    return
                body = standing_body(room, place, standing, pulse)
                told = (body.status, body.people_ahead, body.serving_state, body.message)
                if told != before:
                    before = told
                    yield _name_of(standing), msgspec.to_builtins(body)
                if not isinstance(standing, Waiting | Returned):
                    return
                await asyncio.sleep(EVERY_S)
        finally:
            self._open -= 1


def _name_of(standing: Standing) -> str:
    word = word_of(standing)
    return "position" if word in ("waiting", "returned") else word
