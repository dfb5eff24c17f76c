"""Routes that begin sessions without the waiting page."""

import hashlib
import secrets
from collections.abc import Iterator

import msgspec

from waystation.core.durations import milliseconds
from waystation.core.errors import NotFound
from waystation.core.http.addresses import is_address
from waystation.core.http.endpoints import Endpoint, endpoint, offered
from waystation.core.http.exchange import Answer, Request, answer
from waystation.core.http.problems import Code, Problem
from waystation.core.operators.operators import Operators
from waystation.waitingroom.http import bodies
from waystation.waitingroom.http.bodies import rfc3339
from waystation.waitingroom.http.codes import RoomCode
from waystation.waitingroom.http.context import ServerContext
from waystation.waitingroom.http.handover import redeemed
from waystation.waitingroom.options import WaitingPage
from waystation.waitingroom.room import Room
from waystation.waitingroom.state import RoomState
from waystation.waitingroom.visitor import Inside, JoinRequest, Place

RENEW_WITHIN_S = 30
"""Seconds before its end from which a session token is signed anew."""


class Entered(msgspec.Struct, frozen=True):
    """A session that has just begun."""

    room: Room
    state: RoomState
    place: Place
    status: Inside
    token: str


class Entries:
    """Lets visitors in who need not wait."""

    def __init__(self, context: ServerContext, operators: Operators) -> None:
        self._rooms = context.rooms
        self._cookies = context.cookies
        self._tokens = context.tokens
        self._metrics = context.metrics
        self._operators = operators

    async def straight(
        self, request: Request, room: Room, state: RoomState, *, address: str, agent: str, host: str
    ) -> Entered | None:
        """Begin a session at once if nobody waits and there is room; None for those who wait."""
        if not _may_pass(state) or "prefetch" in request.header("sec-purpose"):
            return None
        key = self._cookies.visitor_key(request) or secrets.token_urlsafe(32)
        newcomer = JoinRequest(
            key=f"cookie|{key}",
            secret=hashlib.sha256(key.encode()).hexdigest(),
            address=address or None,
            agent=agent[:256],
        )
        passed = await room.enter(newcomer)
        if passed is None:
            return None
        self._metrics.arrivals.of(room.name, "passed").inc()
        # The first request that shows this token renews it: only who comes back keeps the seat.
        token = self._tokens.sign_session(
            room, passed.place, state, host=host, life_s=RENEW_WITHIN_S - 1
        )
        return Entered(room, state, passed.place, passed.status, token)

    @endpoint(
        "POST /v1/enter",
        takes=bodies.Enter,
        gives={200: bodies.SessionBegun, 401: None},
        fails=(400, 401, 403, 404, 413, 415, 429, 503),
    )
    async def enter(self, request: Request) -> Answer:
        """Begin a session for a visitor of a site if nobody waits; 401 for those who wait."""
        asked = await request.read(bodies.Enter)
        room, state = await self._rooms.visit(asked.queue)
        address = request.address
        if asked.address:
            if not is_address(asked.address):
                raise Problem(400, Code.MALFORMED, "address must be IPv4 or IPv6")
            # Who could name any address would pass the limit of newcomers for each of them.
            who = await self._operators.known(request)
            if not who.may("connector", asked.queue):
                raise Problem(403, Code.NOT_ALLOWED, f"a key for {who.role} does not allow this")
            address = asked.address
        entered = await self.straight(
            request, room, state, address=address, agent=asked.agent, host=asked.host
        )
        if entered is None:
            raise Problem(401, RoomCode.WAITING_ROOM_REQUIRED, "there is a line")
        return answer(begun_body(entered))

    async def redeem(self, token: str, host: str) -> Entered | None:
        """The session that a token brings to a site's own host; None when it is not valid."""
        try:
            found = await redeemed(self._rooms, token, host=host)
        except NotFound:
            return None
        if found is None:
            return None
        room, state, passed = found
        signed = self._tokens.sign_session(room, passed.place, state, host=host)
        return Entered(room, state, passed.place, passed.status, signed)

    @endpoint(
        "POST /v1/redeem",
        takes=bodies.Redeem,
        gives={200: bodies.SessionBegun},
        fails=(400, 401, 413, 415, 503),
    )
    async def redeem_token(self, request: Request) -> Answer:
        """Take over a session that the waiting page has handed to a site on another host."""
        asked = await request.read(bodies.Redeem)
        entered = await self.redeem(asked.token, asked.host)
        if entered is None:
            raise Problem(401, RoomCode.INVALID_TOKEN, "the token is not valid here any more")
        return answer(begun_body(entered))

    def endpoints(self) -> Iterator[Endpoint]:
        """The part of the table that begins sessions."""
        return offered(self, group="connectors")


def begun_body(entered: Entered) -> bodies.SessionBegun:
    """The answer to a site about a session that has just begun."""
    return bodies.SessionBegun(
        status="active",
        session_id=entered.place.id,
        session_token=entered.token,
        expires_at=rfc3339(entered.status.until_ms),
        max_expires_at=rfc3339(
            entered.state.now_ms + milliseconds(entered.state.options.session_max)
        ),
        redirect_url="",
        queue_id=entered.room.name,
    )


def _may_pass(state: RoomState) -> bool:
    """Whether asking the store makes sense; what is known here may be a second old."""
    if state.fail_open or state.options.waiting_page is WaitingPage.OFF:
        return True
    crowded = state.waiting + state.early > 0
    return state.options.waiting_page is WaitingPage.AUTOMATIC and not crowded
