"""Server-sent events for visitors near the front."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import msgspec

from waystation.core import codec
from waystation.core.clock import Clock
from waystation.core.errors import StoreError
from waystation.waitingroom.http.context import TicketHolders
from waystation.waitingroom.http.framework.endpoints import endpoint
from waystation.waitingroom.http.framework.exchange import NO_STORE, Answer, Request, Send
from waystation.waitingroom.http.options import ServerOptions
from waystation.waitingroom.http.visitors.status import status_body, word_of
from waystation.waitingroom.redis.store import STATE_S
from waystation.waitingroom.room import Room
from waystation.waitingroom.visitor import Called, Place, Returned, VisitorStatus, Waiting

EVERY_S = 1.0
LONGEST_S = 300.0
"""After this long the browser comes again by itself, which spreads streams over processes."""


class Stream(Answer, frozen=True):
    """An answer that goes on."""

    events: AsyncIterator[tuple[str, Any]] | None = None
    done: Callable[[], None] | None = None
    """Called when it is over, however it ends."""
    gone: Callable[[], Coroutine[Any, Any, None]] | None = None
    """Returns when the reader has left, which sending alone does not show."""

    async def send(self, send: Send) -> None:
        """Send events until there are none, or nobody is left to read them."""
        sending = asyncio.ensure_future(self._send_all(send))
        watched = {sending, asyncio.ensure_future(self.gone())} if self.gone else {sending}
        try:
            ended, _ = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            if sending in ended:
                sending.result()
        finally:
            for each in watched:
                each.cancel()
            await asyncio.gather(*watched, return_exceptions=True)
            if self.done is not None:
                self.done()

    async def _send_all(self, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream"), NO_STORE, (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        assert self.events is not None  # noqa: S101
        async for name, body in self.events:
            text = b"event: %s\ndata: %s\n\n" % (name.encode(), codec.encode(body))
            await send({"type": "http.response.body", "body": text, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


class Streams:
    """Lets those near the front follow their place."""

    def __init__(self, holders: TicketHolders, options: ServerOptions, clock: Clock) -> None:
        self._holders = holders
        self._options = options
        self._clock = clock
        self._open = Counter[str]()
        """Streams by the place that they follow."""

    @endpoint(
        "GET /api/v1/queues/{id}/events", gives={200: None, 204: None}, fails=(400, 401, 404, 503)
    )
    async def answer(self, request: Request) -> Answer:
        """Follow the visitor's place as server-sent events."""
        room, _, place = await self._holders.find(request)
        status = await room.status(place)
        options = self._options
        full = self._open.total() >= options.streams
        if full or self._open[place.id] >= options.streams_each or not self._is_near(status):
            return Answer(204, headers=[(b"retry-after", b"30")])
        # Counted now: many that are asked for at once must not all find room.
        self._open[place.id] += 1
        return Stream(
            events=self._follow(room, place), done=lambda: self._close(place), gone=request.gone
        )

    def _close(self, place: Place) -> None:
        self._open[place.id] -= 1
        if self._open[place.id] <= 0:
            del self._open[place.id]

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
            body = status_body(room, place, status, state)
            told = (body.status, body.people_ahead, body.serving_state, body.message)
            if told != before:
                before = told
                yield _name_of(status), msgspec.to_builtins(body)
            if not isinstance(status, Waiting | Returned):
                return
            await asyncio.sleep(EVERY_S)


def _name_of(status: VisitorStatus) -> str:
    word = word_of(status)
    return "position" if word in ("waiting", "returned") else word
