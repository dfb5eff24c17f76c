"""Server-sent events for visitors near the front."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from waystation.core.clock import Clock
from waystation.core.errors import StoreError
from waystation.core.http.addresses import client_of
from waystation.core.http.endpoints import endpoint
from waystation.core.http.exchange import Answer, Request
from waystation.core.http.streams import Stream
from waystation.waitingroom.http.context import TicketHolders
from waystation.waitingroom.http.options import ServerOptions
from waystation.waitingroom.http.visitors.status import (
    OVER,
    ending,
    is_over,
    serving_state,
    status_body,
    word_of,
)
from waystation.waitingroom.redis.store import STATE_S
from waystation.waitingroom.room import Room
from waystation.waitingroom.visitor import Called, Inside, Place, Returned, VisitorStatus, Waiting

EVERY_S = 1.0
LONGEST_S = 300.0
"""After this long the browser comes again by itself, which spreads streams over processes."""


class Streams:
    """Lets those near the front follow their place."""

    def __init__(self, holders: TicketHolders, options: ServerOptions, clock: Clock) -> None:
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
