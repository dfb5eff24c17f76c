"""The parts of a server that its routes are built from, made once for each process."""

from typing import TypeVar

import msgspec

from waystation.core.clock import Clock, SystemClock
from waystation.core.http.exchange import Request
from waystation.core.http.problems import Problem
from waystation.waitingroom.http.codes import RoomCode
from waystation.waitingroom.http.cookies import VisitorCookies
from waystation.waitingroom.http.options import ServerOptions
from waystation.waitingroom.http.tokens import Tokens
from waystation.waitingroom.metrics import RoomMetrics
from waystation.waitingroom.room import Room
from waystation.waitingroom.rooms import Rooms
from waystation.waitingroom.signing.tokens import Keyring
from waystation.waitingroom.state import RoomState
from waystation.waitingroom.visitor import Forbidden, Place

T = TypeVar("T")


def own(found: T | Forbidden) -> T:
    """What a visitor has got; a Problem when the place is somebody else's."""
    if isinstance(found, Forbidden):
        raise Problem(403, RoomCode.NOT_YOURS, "the secret of this place is another")
    return found


class TicketHolders:
    """Finds the room and the place of a visitor who shows a ticket."""

    def __init__(self, rooms: Rooms, cookies: VisitorCookies, tokens: Tokens) -> None:
        self._rooms = rooms
        self._cookies = cookies
        self._tokens = tokens

    async def find(self, request: Request) -> tuple[Room, RoomState, Place]:
        """The room of a request, its state and the visitor's place; a Problem without a ticket."""
        room, state = await self._rooms.visit(request.slots["id"])
        return room, state, self.place(request, room, state)

    def place(self, request: Request, room: Room, state: RoomState) -> Place:
        """The visitor's place in this room; a Problem without a valid ticket."""
        return self._tokens.read_ticket(self._cookies.ticket(request, room.name), room, state)


class ServerContext(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of one server; each group of routes is given those that it needs."""

    rooms: Rooms
    cookies: VisitorCookies
    tokens: Tokens
    holders: TicketHolders
    options: ServerOptions
    clock: Clock
    metrics: RoomMetrics

    @classmethod
    def create(
        cls,
        rooms: Rooms,
        keyring: Keyring,
        options: ServerOptions | None = None,
        *,
        clock: Clock | None = None,
        metrics: RoomMetrics | None = None,
    ) -> "ServerContext":
        """Build the parts from the rooms, the signing keys and the options."""
        options, clock = options or ServerOptions(), clock or SystemClock()
        cookies = VisitorCookies(secure=options.secure_cookies, ticket_s=options.ticket_s)
        tokens = Tokens(
            keyring,
            clock,
            issuer=options.issuer,
            ticket_s=options.ticket_s,
            session_s=options.session_token_s,
        )
        return cls(
            rooms=rooms,
            cookies=cookies,
            tokens=tokens,
            holders=TicketHolders(rooms, cookies, tokens),
            options=options,
            clock=clock,
            metrics=metrics or RoomMetrics(),
        )
