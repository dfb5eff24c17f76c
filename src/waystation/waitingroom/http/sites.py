"""Endpoints of sites: sessions, and entries without a wait."""

import hashlib
import secrets
from collections.abc import Iterator
from functools import partial

import msgspec

from waystation.core.durations import milliseconds, whole_seconds
from waystation.core.errors import InvalidInput, InvalidToken, NotFound
from waystation.core.http.addresses import is_address
from waystation.core.http.endpoints import Endpoint, endpoint, offered
from waystation.core.http.exchange import Answer, Request, answer
from waystation.core.http.problems import Code, Problem
from waystation.core.operators.operators import Operators
from waystation.waitingroom.http import bodies
from waystation.waitingroom.http.bodies import rfc3339
from waystation.waitingroom.http.context import (
    RENEW_WITHIN_S,
    ServerContext,
    Tokens,
    VisitorCookies,
    audience_of,
    redeemed,
    subject_of,
)
from waystation.waitingroom.http.options import RoomCode
from waystation.waitingroom.options import WaitingPage
from waystation.waitingroom.room import Room
from waystation.waitingroom.rooms import Rooms
from waystation.waitingroom.signing import SessionToken
from waystation.waitingroom.state import RoomState
from waystation.waitingroom.visitor import Inside, JoinRequest, Place

_session_endpoint = partial(endpoint, fails=(400, 401, 404, 410, 503), scope="session")


class Seat(msgspec.Struct, frozen=True):
    """A session token that counts, and what it is about."""

    room: Room
    state: RoomState
    claims: SessionToken

    @property
    def place(self) -> Place:
        """Whose seat it is."""
        return Place(self.claims.sub, self.claims.owner)


class Sessions:
    """The endpoints of sessions."""

    def __init__(
        self, rooms: Rooms, cookies: VisitorCookies, tokens: Tokens, *, token_s: int
    ) -> None:
        self._rooms = rooms
        self._cookies = cookies
        self._tokens = tokens
        self._token_s = token_s

    @_session_endpoint("POST /api/v1/sessions/{sid}/renew", gives={200: bodies.SessionBody})
    async def renew(self, request: Request) -> Answer:
        """Renew a session and sign a new token."""
        return await self._renewed(request, views=0)

    @_session_endpoint("POST /api/v1/sessions/{sid}/activity", gives={200: bodies.SessionBody})
    async def activity(self, request: Request) -> Answer:
        """Count a page view."""
        return await self._renewed(request, views=1)

    @_session_endpoint("GET /api/v1/sessions/{sid}", gives={200: bodies.SessionBody})
    async def look(self, request: Request) -> Answer:
        """The state of a session."""
        return answer(await self._body(await self._seat(request)))

    @_session_endpoint("POST /api/v1/sessions/{sid}/complete", gives={200: bodies.Done})
    async def complete(self, request: Request) -> Answer:
        """End the session and free its seat."""
        seat = await self._seat(request)
        await seat.room.complete(seat.place)
        await seat.room.revoke(seat.claims.jti, "session_terminated", ttl=self._token_s)
        gone = self._cookies.keep_session(seat.room.name, "", 0)
        return answer(bodies.Done(status="completed"), 200, gone)

    async def read(self, token: str) -> Seat:
        """The seat that a token is for, if it still counts; a token just run out does."""
        try:
            name = audience_of(token)
            room, state = await self._rooms.visit(name)
        except NotFound:
            raise InvalidToken("the token is not valid: it is meant for another room") from None
        claims = self._tokens.read_session(
            token, name, grace_s=whole_seconds(state.options.session_max)
        )
        if claims.epoch < state.epoch:
            raise InvalidToken("the token is not valid: every token of its time was revoked")
        return Seat(room, state, claims)

    async def sign_again(self, seat: Seat, host: str, *, views: int) -> str:
        """Renew a session in the store and sign it anew; NotFound when it has ended."""
        if await seat.room.revoked(seat.claims.jti):
            raise NotFound("the session was revoked")
        await seat.room.renew(seat.place, views=views)
        return self._tokens.sign_session(seat.room, seat.place, seat.state, host=host)

    async def _seat(self, request: Request) -> Seat:
        token = request.header("wr-session")
        if not token:
            tokens = {
                value
                for name, value in request.cookies.items()
                if name.startswith(self._cookies.name("s") + "_")
            }
            wanted = request.slots["sid"]
            token = next((each for each in tokens if _is_for(each, wanted)), "")
        if not token:
            raise Problem(401, RoomCode.SESSION_REQUIRED, "this needs a session token, got none")
        try:
            seat = await self.read(token)
        except InvalidToken as error:
            raise Problem(401, RoomCode.INVALID_TOKEN, str(error)) from None
        if seat.claims.sub != request.slots["sid"]:
            # Whether the other one exists is nobody's business.
            raise Problem(404, Code.NOT_FOUND, "there is no such session")
        return seat

    async def _renewed(self, request: Request, *, views: int) -> Answer:
        seat = await self._seat(request)
        try:
            token = await self.sign_again(seat, request.host, views=views)
        except NotFound as error:
            raise Problem(410, RoomCode.SESSION_ENDED, str(error)) from None
        body = await self._body(seat)
        body.session_token = token
        lasts_s = whole_seconds(seat.state.options.session_max)
        cookie = self._cookies.keep_session(seat.room.name, token, lasts_s)
        return answer(body, 200, cookie)

    async def _body(self, seat: Seat) -> bodies.SessionBody:
        try:
            found = await seat.room.get_session(seat.place.id)
        except NotFound as error:
            raise Problem(410, RoomCode.SESSION_ENDED, str(error)) from None
        return bodies.SessionBody(
            session_id=found.id,
            queue_id=seat.room.name,
            status=found.status,
            started_at=rfc3339(found.started_at),
            expires_at=rfc3339(found.expires_at),
            remaining_seconds=max(0, int(found.expires_at.timestamp()) - int(self._tokens.now_s())),
            page_views=found.page_views,
        )

    def endpoints(self) -> Iterator[Endpoint]:
        """The part of the table that is about sessions."""
        return offered(self, group="sessions")


def _is_for(token: str, session_id: str) -> bool:
    try:
        return subject_of(token) == session_id
    except InvalidInput:
        return False


RENEWED_S = RENEW_WITHIN_S - 1
"""The life of a token that the first request that shows it renews."""


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
        # Only who comes back keeps the seat.
        token = self._tokens.sign_session(room, passed.place, state, host=host, life_s=RENEWED_S)
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
        # The session began on the waiting page, which may be a minute ago.
        signed = self._tokens.sign_session(room, passed.place, state, host=host, life_s=RENEWED_S)
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
