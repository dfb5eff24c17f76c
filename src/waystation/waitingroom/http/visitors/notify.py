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
from waystation.waitingroom.http.context import TicketHolders, own
from waystation.waitingroom.http.cookies import VisitorCookies

_HANDLE = re.compile(r"[A-Za-z0-9_.:@+-]{1,128}")
_FAILS = (400, 401, 403, 404, 410, 413, 415, 503)


class Notify:
    """Remembers whom to tell."""

    def __init__(self, holders: TicketHolders, cookies: VisitorCookies) -> None:
        self._holders = holders
        self._cookies = cookies

    @endpoint(
        "POST /api/v1/queues/{id}/notify",
        scope="ticket",
        takes=bodies.Handle,
        gives={201: bodies.Done},
        fails=_FAILS,
    )
    async def ask(self, request: Request) -> Answer:
        """Ask the site to notify me when it is my turn."""
        require_own_site(request)
        asked = await request.read(bodies.Handle)
        if not _HANDLE.fullmatch(asked.handle):
            raise Problem(400, Code.MALFORMED, "a handle is 1 to 128 of A-Z a-z 0-9 _ . : @ + -")
        await self._remember(request, asked.secret, asked.handle)
        return answer(bodies.Done(status="noted"), 201)

    @endpoint(
        "DELETE /api/v1/queues/{id}/notify",
        scope="ticket",
        takes=bodies.Possession,
        gives={204: None},
        fails=_FAILS,
    )
    async def forget(self, request: Request) -> Answer:
        """Stop the notification."""
        require_own_site(request)
        asked = await request.read(bodies.Possession)
        await self._remember(request, asked.secret, "")
        return Answer(204)

    async def _remember(self, request: Request, secret: str, handle: str) -> None:
        room, _, place = await self._holders.find(request)
        shown = self._cookies.possession(request, secret)
        noted = own(await room.notify(place, shown, handle))
        if not noted:
            raise Problem(410, RoomCode.PLACE_LOST, "there is no such place in line any more")
