"""Routes of sessions, for visitors inside and their site."""

from collections.abc import Iterator

import msgspec

from waystation.core.durations import whole_seconds
from waystation.core.errors import InvalidInput, InvalidToken, NotFound
from waystation.core.http.endpoints import Endpoint, endpoint, offered
from waystation.core.http.exchange import Answer, Request, answer
from waystation.core.http.problems import Code, Problem
from waystation.waitingroom.http import bodies
from waystation.waitingroom.http.bodies import rfc3339
from waystation.waitingroom.http.codes import RoomCode
from waystation.waitingroom.http.cookies import VisitorCookies
from waystation.waitingroom.http.tokens import Tokens, audience_of, subject_of
from waystation.waitingroom.room import Room
from waystation.waitingroom.rooms import Rooms
from waystation.waitingroom.signing.tokens import SessionToken
from waystation.waitingroom.state import RoomState
from waystation.waitingroom.visitor import Place

_FAILS = (400, 401, 404, 410, 503)


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

    @endpoint(
        "POST /api/v1/sessions/{sid}/renew",
        gives={200: bodies.SessionBody},
        fails=_FAILS,
        scope="session",
    )
    async def renew(self, request: Request) -> Answer:
        """Renew a session and sign a new token."""
        seat = await self._seat(request)
        return await self._renewed(request, seat, views=0)

    @endpoint(
        "POST /api/v1/sessions/{sid}/activity",
        gives={200: bodies.SessionBody},
        fails=_FAILS,
        scope="session",
    )
    async def activity(self, request: Request) -> Answer:
        """Count a page view."""
        seat = await self._seat(request)
        return await self._renewed(request, seat, views=1)

    @endpoint(
        "GET /api/v1/sessions/{sid}", gives={200: bodies.SessionBody}, fails=_FAILS, scope="session"
    )
    async def look(self, request: Request) -> Answer:
        """The state of a session."""
        seat = await self._seat(request)
        return answer(await self._body(seat))

    @endpoint(
        "POST /api/v1/sessions/{sid}/complete",
        gives={200: bodies.Done},
        fails=_FAILS,
        scope="session",
    )
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

    async def _renewed(self, request: Request, seat: Seat, *, views: int) -> Answer:
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
