"""Notification of visitors by the site when it is their turn.

The room sends no mail: it remembers a handle that means something to the site alone, and the site's
webhook hears it with the visitor's `admitted`.
"""

import re

from waystation.core.http.cookies import require_own_site
from waystation.core.http.endpoints import endpoint
from waystation.core.http.exchange import Answer, Request, answer
from waystation.core.http.problems import Code, Problem
from waystation.waitingroom.http import bodies
from waystation.waitingroom.http.codes import RoomCode
from waystation.waitingroom.http.context import TicketHolders
from waystation.waitingroom.redis import scripts
from waystation.waitingroom.room import Room
from waystation.waitingroom.visitor import Place

_HANDLE = re.compile(r"[A-Za-z0-9_.:@+-]{1,128}")
_FAILS = (400, 401, 403, 404, 410, 413, 415, 503)


class Notify:
    """Remembers whom to tell."""

    def __init__(self, holders: TicketHolders) -> None:
        self._holders = holders

    @endpoint(
        "POST /api/v1/queues/{id}/notify",
        scope="ticket",
        takes=bodies.Handle,
        gives={201: bodies.Done},
        fails=_FAILS,
    )
    async def ask(self, request: Request) -> Answer:
        """Ask the site to notify me when it is my turn."""
        room, place = await self._place(request)
        asked = await request.read(bodies.Handle)
        if not _HANDLE.fullmatch(asked.handle):
            raise Problem(400, Code.MALFORMED, "a handle is 1 to 128 of A-Z a-z 0-9 _ . : @ + -")
        await _remember(room, place, asked.handle)
        return answer(bodies.Done(status="noted"), 201)

    @endpoint("DELETE /api/v1/queues/{id}/notify", scope="ticket", gives={204: None}, fails=_FAILS)
    async def forget(self, request: Request) -> Answer:
        """Stop the notification."""
        await _remember(*await self._place(request), "")
        return Answer(204)

    async def _place(self, request: Request) -> tuple[Room, Place]:
        require_own_site(request)
        room, _, place = await self._holders.find(request)
        return room, place


async def _remember(room: Room, place: Place, handle: str) -> None:
    keys = room.store.keys.of(place.id)
    if not await scripts.notify(await room.store.client(), keys, handle=handle):
        raise Problem(410, RoomCode.PLACE_LOST, "there is no such place in line any more")
