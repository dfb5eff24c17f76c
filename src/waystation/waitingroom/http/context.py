"""What the endpoints share: the way back, tokens, cookies, themes, and the room itself.

Cookies belong to one host, so the way from the page to the site carries a token in its address: it
counts once, for a minute, and on that host alone.
"""

import hashlib
import hmac
import json
import os
import random
import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Self, TypeVar
from urllib.parse import unquote, urlsplit

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from waystation.core import codec
from waystation.core.clock import Clock, SystemClock
from waystation.core.durations import whole_seconds
from waystation.core.errors import InvalidInput, InvalidToken, Malformed, WaystationError
from waystation.core.http.exchange import Cookies, Header, Request, digest_of
from waystation.core.http.problems import Problem
from waystation.waitingroom.http.options import RoomCode, ServerOptions
from waystation.waitingroom.metrics import RoomMetrics
from waystation.waitingroom.pages.theme import Theme
from waystation.waitingroom.room import Room
from waystation.waitingroom.rooms import Rooms, is_name
from waystation.waitingroom.signing import (
    LEEWAY_S,
    EnqueueTicket,
    Keyring,
    Kind,
    QueueTicket,
    SessionToken,
)
from waystation.waitingroom.state import RoomState
from waystation.waitingroom.visitor import Forbidden, Lane, Passed, Place, new_id

LONGEST_PATH = 1024
_HOST = re.compile(
    r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:\d{1,5})?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?"
)
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\\]")


class Return(msgspec.Struct, frozen=True):
    """A place on a site."""

    host: str
    path: str
    queue: str
    exp: int


def is_host(text: str) -> bool:
    """Whether this is a host and nothing more."""
    return len(text) <= 255 and _HOST.fullmatch(text) is not None


def safe_path(text: str) -> str:
    """A path on the visitor's own site; anything that a browser could take elsewhere is refused."""
    if not text.startswith("/") or len(text) > LONGEST_PATH:
        raise InvalidInput(f"a target must be a path of at most {LONGEST_PATH} characters")
    read = text
    # Whoever unquotes it once more than we do must not find another host in it.
    for _ in range(3):
        if _FORBIDDEN.search(read) or read.startswith("//"):
            raise InvalidInput("a target must be a plain path, without // or \\ in front of it")
        read = unquote(read, errors="replace")
    if not text.isascii() or " " in text:
        raise InvalidInput("a target must be written in ASCII without spaces, the rest as %XX")
    return text


def split_target(text: str, hosts: Sequence[str]) -> tuple[str, str]:
    """The host, if one is named that may be gone back to, and the path on it."""
    scheme, colon, rest = text.partition("://")
    if not colon or scheme not in ("http", "https"):
        return "", text
    host, slash, path = rest.partition("/")
    if not is_host(host) or host not in hosts:
        raise InvalidInput("a target must be a path, or on one of the room's return_hosts")
    return host, slash + path or "/"


def return_hosts(state: RoomState) -> list[str]:
    """The hosts besides the room's own that its operator lets visitors go back to."""
    return [each for each in state.fields.get("return_hosts", "").split(",") if each]


class Seal:
    """Writes and reads sealed returns; every process with the same keys reads the others'."""

    def __init__(self, secrets: list[bytes]) -> None:
        self._stamps = [hashlib.sha256(b"stamp|" + each).digest() for each in secrets]
        self._boxes = [AESGCM(hashlib.sha256(b"return|" + each).digest()) for each in secrets]

    @classmethod
    def of(cls, keyring: Keyring) -> Self:
        """The seal that belongs to a keyring; it turns with the keys of the queue tickets."""
        ring = json.loads(keyring.to_json())[Kind.QUEUE]
        keys = (ring["current"], *ring["previous"], ring["next"])
        return cls([key["k"].encode() for key in keys])

    def stamp(self, text: str) -> str:
        """A mark that only this installation can make."""
        return _stamp(self._stamps[0], text)

    def stamped(self, text: str, mark: str) -> bool:
        """Whether a mark was made here, with a key that counts."""
        return any(
            hmac.compare_digest(mark.encode(), _stamp(key, text).encode()) for key in self._stamps
        )

    def close(self, back: Return) -> str:
        """The text for the query."""
        nonce = os.urandom(12)
        sealed = self._boxes[0].encrypt(nonce, codec.encode(back), back.queue.encode())
        return urlsafe_b64encode(nonce + sealed).rstrip(b"=").decode()

    def open(self, text: str, *, queue: str, now_s: float) -> Return:
        """What was sealed for this room; InvalidInput when it was not, or too long ago."""
        if len(text) > 4 * LONGEST_PATH:
            raise InvalidInput("the return address is too long")
        try:
            raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except ValueError:
            raise InvalidInput("the return address cannot be read") from None
        for box in self._boxes:
            try:
                back = codec.decode(box.decrypt(raw[:12], raw[12:], queue.encode()), Return)
            except (InvalidTag, ValueError, Malformed):
                continue
            if back.exp <= now_s:
                raise InvalidInput("the return address is too old")
            safe_path(back.path)
            return back
        raise InvalidInput("the return address was not sealed here for this room")


def _stamp(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()[:32]


RENEW_WITHIN_S = 30
"""Seconds before its end from which a session token is signed anew; connectors know this number."""
RENEWED_AT = 10
"""Activity renews a session once a tenth of it has gone, so that it ends after nine without any."""
MOST_REMEMBERED = 100_000
"""Tokens whose signature a process remembers having checked."""


class Tokens:
    """Signs tokens and checks them; remembers the signatures that it has checked."""

    def __init__(
        self, keyring: Keyring, clock: Clock, *, issuer: str, ticket_s: int, session_s: int
    ) -> None:
        self.keyring = keyring
        self.seal = Seal.of(keyring)
        self.issuer = issuer
        self.bits = random.SystemRandom()
        self._clock = clock
        self._ticket_s = ticket_s
        self.session_s = session_s
        """Seconds for which a session token is valid at most."""
        self._checked: dict[str, QueueTicket | SessionToken] = {}

    def adopt(self, keyring: Keyring) -> None:
        """Sign and check with these keys from now on."""
        self.keyring = keyring
        self.seal = Seal.of(keyring)
        self._checked.clear()

    def now_s(self) -> float:
        """Seconds since the epoch."""
        return self._clock.now_ms() / 1000

    def sign_ticket(self, room: Room, place: Place, lane: Lane, state: RoomState) -> str:
        """The ticket of a place."""
        now = self._clock.now_ms() // 1000
        return self.keyring.sign(
            QueueTicket(
                iss=self.issuer,
                aud=room.name,
                iat=now,
                exp=now + self._ticket_s,
                jti=place.id,
                epoch=state.epoch,
                owner=place.owner,
                lane=lane,
            )
        )

    def sign_session(
        self, room: Room, place: Place, state: RoomState, *, host: str, life_s: int = 0
    ) -> str:
        """The token of a session, for two minutes at most unless another life is given.

        Only a token that is signed anew keeps the seat, so that of a short session lives shorter.
        """
        now = self._clock.now_ms() // 1000
        tenth_s = (whole_seconds(state.options.session) - 1) // RENEWED_AT
        life_s = life_s or min(self.session_s, RENEW_WITHIN_S + tenth_s)
        return self.keyring.sign(
            SessionToken(
                iss=self.issuer,
                aud=room.name,
                iat=now,
                exp=now + life_s,
                jti=new_id(self.bits),
                epoch=state.epoch,
                sub=place.id,
                owner=place.owner,
                host=host,
            )
        )

    def read_ticket(self, token: str, room: Room, state: RoomState) -> Place:
        """The place of a ticket that is valid in this room; a Problem for any other."""
        if not token:
            raise Problem(401, RoomCode.TICKET_REQUIRED, "this needs a ticket, got none")
        ticket = self._checked.get(token)
        if not isinstance(ticket, QueueTicket) or ticket.exp <= self.now_s():
            try:
                ticket = self.keyring.verify(
                    token,
                    QueueTicket,
                    audience=room.name,
                    issuer=self.issuer,
                    now_ms=self._clock.now_ms(),
                )
            except InvalidToken as error:
                raise Problem(401, RoomCode.INVALID_TOKEN, str(error)) from None
            self._remember(token, ticket)
        if ticket.aud != room.name or ticket.epoch < state.epoch:
            raise Problem(401, RoomCode.INVALID_TOKEN, "the ticket is no longer valid here")
        return Place(ticket.jti, ticket.owner)

    def read_session(self, token: str, room: str, *, grace_s: int = 0) -> SessionToken:
        """The claims of a session token, also of one that expired less than the grace ago."""
        known = self._checked.get(token)
        if isinstance(known, SessionToken) and known.aud == room and known.exp > self.now_s():
            return known
        claims = self.keyring.verify(
            token,
            SessionToken,
            audience=room,
            issuer=self.issuer,
            now_ms=self._clock.now_ms(),
            leeway_s=LEEWAY_S + grace_s,
        )
        # The grace is for expired tokens, not for those that are not valid yet.
        if max(claims.nbf, claims.iat) - LEEWAY_S > self.now_s():
            raise InvalidToken("the token is not valid: its time has not come yet")
        self._remember(token, claims)
        return claims

    def read_invitation(self, token: str, room: Room, state: RoomState) -> EnqueueTicket:
        """The claims of an invitation; a Problem for one that is not valid."""
        try:
            return self.keyring.verify(
                token,
                EnqueueTicket,
                audience=room.name,
                issuer=self.issuer,
                now_ms=self._clock.now_ms(),
                epoch=state.epoch,
            )
        except InvalidToken as error:
            raise Problem(401, RoomCode.INVALID_TOKEN, str(error)) from None

    def seal_target(self, room: Room, host: str, path: str) -> str:
        """Seal where a visitor wants to go; the host, if any, must be one of the room's own."""
        until = int(self.now_s()) + self._ticket_s
        return self.seal.close(Return(host=host, path=safe_path(path), queue=room.name, exp=until))

    def _remember(self, token: str, claims: QueueTicket | SessionToken) -> None:
        if len(self._checked) >= MOST_REMEMBERED:
            del self._checked[next(iter(self._checked))]
        self._checked[token] = claims


def audience_of(token: str) -> str:
    """The room that a token names; trust it only after the token was verified."""
    return _claim(token, "aud")


def subject_of(token: str) -> str:
    """The session that a token names; trust it only after the token was verified."""
    return _claim(token, "sub")


def _claim(token: str, claim: str) -> str:
    try:
        _, payload, _ = token.split(".")
        return str(json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))[claim])
    except (ValueError, RecursionError, KeyError, TypeError):
        raise InvalidToken("the token is not valid: it is not a token") from None


class VisitorCookies(Cookies):
    """Reads and writes the room's cookies, and the headers that apps send instead of them."""

    def __init__(self, *, secure: bool, ticket_s: int) -> None:
        super().__init__("wr_", secure=secure)
        self._ticket_s = ticket_s
        self._visitor = self.name("v")

    def visitor_key(self, request: Request) -> str | None:
        """The key of the visitor who asks; None for a new one."""
        cookie = request.cookies.get(self._visitor, "")
        header = request.header("wr-visitor")
        if cookie and header and cookie != header:
            raise Problem(400, RoomCode.AMBIGUOUS_VISITOR, "the cookie and Wr-Visitor disagree")
        key = cookie or header
        return key if 22 <= len(key) <= 128 and key.isascii() and key.isprintable() else None

    def new_visitor_key(self) -> tuple[str, Header]:
        """A key for a new visitor, and the header that sets its cookie."""
        key = secrets.token_urlsafe(32)
        return key, self.header(self._visitor, key, self._ticket_s)

    def possession(self, request: Request, secret: str) -> str:
        """The proof that a place is the visitor's own: the digest of its secret or of the key.

        Without either it is a text that proves nothing.
        """
        shown = secret or self.visitor_key(request)
        return digest_of(shown) if shown else "-"

    def ticket(self, request: Request, room: str) -> str:
        """The ticket in a request, or an empty text."""
        scheme, _, token = request.header("authorization").partition(" ")
        return _one_of(
            request.cookies.get(self.name("q", room), ""),
            token.strip() if scheme.lower() == "bearer" else "",
        )

    def keep_ticket(self, room: str, ticket: str, max_age: int | None = None) -> Header:
        """The header that sets the cookie of a ticket, for as long as any by default."""
        return self.header(
            self.name("q", room), ticket, self._ticket_s if max_age is None else max_age
        )

    def session(self, request: Request, room: str) -> str:
        """The session token in a request, or an empty text."""
        return _one_of(request.cookies.get(self.name("s", room), ""), request.header("wr-session"))

    def keep_session(self, room: str, token: str, max_age: int) -> Header:
        """The header that sets the cookie of a session token."""
        return self.header(self.name("s", room), token, max_age)


def _one_of(cookie: str, header: str) -> str:
    if cookie and header and cookie != header:
        raise Problem(400, RoomCode.AMBIGUOUS_TOKEN, "the cookie and the header disagree")
    return header or cookie


PARAMETER = "wr_token"
LONGEST = 256


async def onward(room: Room, place: Place, destination: str, *, host: str) -> str:
    """Where a visitor goes on to from a page on this host, with a token if that is another host."""
    there = urlsplit(destination)
    if not there.netloc or there.netloc == host:
        return destination
    token = f"{PARAMETER}={room.name}.{await room.hand_over(place, there.netloc)}"
    # In front of a fragment, which no server sees.
    return there._replace(query=f"{there.query}&{token}" if there.query else token).geturl()


async def redeemed(rooms: Rooms, token: str, *, host: str) -> tuple[Room, RoomState, Passed] | None:
    """The session that a token brings to this host; None when it is not valid."""
    name, _, secret = token.rpartition(".")
    if len(token) > LONGEST or not is_name(name) or not secret.isalnum():
        return None
    room, state = await rooms.visit(name)
    passed = await room.take_over(secret, host)
    return None if passed is None else (room, state, passed)


def split_token(path: str) -> tuple[str, str]:
    """A path with its query but without the token, and the token."""
    plain, mark, query = path.partition("?")
    parts = query.split("&") if mark else []
    tokens = [each for each in parts if each.startswith(f"{PARAMETER}=")]
    kept = "&".join(each for each in parts if not each.startswith(f"{PARAMETER}="))
    token = tokens[0].partition("=")[2] if len(tokens) == 1 else ""
    return f"{plain}?{kept}" if kept else plain, token


FIELD = "looks"
"""Of a room's `meta`: the digest of its looks, which says when to read them again."""
_PLAIN = Theme()


class ThemeStore:
    """Keeps and finds how the pages of rooms look."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[str, Theme]] = {}

    async def looks(self, room: Room, state: RoomState) -> Theme:
        """How a room's page looks."""
        digest = state.fields.get(FIELD, "")
        if not digest:
            return _PLAIN
        known = self._read.get(room.queue_id)
        if known is None or known[0] != digest:
            known = self._read[room.queue_id] = (digest, await self._kept(room))
        return known[1]

    async def put(self, room: Room, looks: Theme) -> None:
        """Let a room's page look like this."""
        raw = codec.encode(looks)
        await room.store.ask("SET", room.store.keys.looks, raw)
        await room.store.write({FIELD: hashlib.sha256(raw).hexdigest()[:16]})

    async def clear(self, room: Room) -> None:
        """Let a room's page look as it comes."""
        await room.store.write({FIELD: ""})
        await room.store.ask("DEL", room.store.keys.looks)

    async def _kept(self, room: Room) -> Theme:
        raw = await room.store.ask("GET", room.store.keys.looks)
        try:
            return codec.decode(raw, Theme) if raw else _PLAIN
        except WaystationError:
            # A page in plain clothes is better than none.
            return _PLAIN


T = TypeVar("T")


def own(found: T | Forbidden) -> T:
    """What a visitor has got; a Problem when the place is somebody else's."""
    if isinstance(found, Forbidden):
        raise Problem(403, RoomCode.NOT_YOURS, "the secret of this place is another")
    return found


class TicketLookup:
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
    holders: TicketLookup
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
            holders=TicketLookup(rooms, cookies, tokens),
            options=options,
            clock=clock,
            metrics=metrics or RoomMetrics(),
        )
