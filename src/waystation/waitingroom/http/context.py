"""What every endpoint needs: the rooms, the keys, the cookies, and how to tell visitors apart."""

import hashlib
import json
import random
import secrets
from base64 import urlsafe_b64decode
from collections.abc import Sequence

import msgspec

from waystation.core.clock import Clock, SystemClock
from waystation.core.errors import InvalidOption, InvalidToken
from waystation.waitingroom.http.framework.addresses import networks
from waystation.waitingroom.http.framework.exchange import Request
from waystation.waitingroom.http.framework.problems import Problem
from waystation.waitingroom.http.returns import Seal
from waystation.waitingroom.metrics import RoomMetrics
from waystation.waitingroom.room import PULSE_S, Room
from waystation.waitingroom.rooms import Rooms, name_of
from waystation.waitingroom.signing.tokens import LEEWAY_S, Keyring, QueueTicket, SessionToken
from waystation.waitingroom.state import Pulse
from waystation.waitingroom.visitor import Lane, Place, new_id

MOST_REMEMBERED = 100_000
"""Tickets whose signature a process remembers having checked."""


class DeskOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the doors behave."""

    issuer: str = "waystation"
    """Who signs; the same for all processes and all releases."""
    secure_cookies: bool = True
    """Off only where a browser is served without TLS from somewhere else than this machine."""
    trusted_proxies: Sequence[str] = ()
    """Networks whose word about a visitor's address is believed."""
    poll_floor_ms: int = 1000
    """Asking more often than this, beyond a few times, is answered without asking the store."""
    change_floor_ms: int = 1000
    """An operator who changes things more often than this, beyond a minute's worth, has to wait."""
    guess_floor_ms: int = 6000
    """Wrong keys and codes that come from one address more often, beyond ten, are not looked at."""
    ticket_s: int = 86_400
    session_token_s: int = 120
    """How long a connector believes a session without asking."""
    webhook_networks: Sequence[str] = ()
    """Networks of our own that webhooks may go to, also without TLS."""
    front: int = 100
    """How many at the front of a lane may follow their place live."""
    streams: int = 1000
    """How many may do so in one process."""
    streams_each: int = 3
    """How many of these one visitor may have, in as many tabs."""

    def __post_init__(self) -> None:
        networks(self.trusted_proxies)
        networks(self.webhook_networks)
        if not 10 <= self.session_token_s <= 3600:
            raise InvalidOption(f"session_token_s must be 10 to 3600, got {self.session_token_s}")


class Desk:
    """The one who knows the rooms and the keys."""

    def __init__(
        self,
        rooms: Rooms,
        keyring: Keyring,
        options: DeskOptions | None = None,
        *,
        clock: Clock | None = None,
        metrics: RoomMetrics | None = None,
    ) -> None:
        self.rooms = rooms
        self.keyring = keyring
        self.options = options or DeskOptions()
        self.clock: Clock = clock or SystemClock()
        self.metrics = metrics or RoomMetrics()
        self.seal = Seal.of(keyring)
        self.trusted = networks(self.options.trusted_proxies)
        self.inside = networks(self.options.webhook_networks)
        self.bits = random.SystemRandom()
        self._checked: dict[str, QueueTicket | SessionToken] = {}
        self._visitor_cookie = self.cookie("v")

    def adopt(self, keyring: Keyring) -> None:
        """Sign and check with these keys from now on."""
        self.keyring = keyring
        self.seal = Seal.of(keyring)
        self._checked.clear()

    def now_s(self) -> float:
        """Seconds since the epoch."""
        return self.clock.now_ms() / 1000

    async def room(self, request: Request) -> Room:
        """The room that a request is about."""
        return await self.rooms.find(request.slots["id"])

    async def pulse(self, room: Room) -> Pulse:
        """How the room does, as it was a moment ago."""
        return room.recent_pulse() or await room.pulse(max_age_s=PULSE_S)

    async def visited(self, request: Request) -> tuple[Room, Pulse]:
        """The room that a request is about, and how it does."""
        room = self.rooms.known(request.slots["id"]) or await self.room(request)
        return room, room.recent_pulse() or await self.pulse(room)

    def cookie(self, kind: str, room: str = "") -> str:
        """The name of a cookie; the prefix makes browsers refuse one set from elsewhere."""
        name = f"wr_{kind}_{room}" if room else f"wr_{kind}"
        return f"__Host-{name}" if self.options.secure_cookies else name

    def set_cookie(self, name: str, value: str, max_age: int) -> tuple[bytes, bytes]:
        """The header that keeps a cookie, or with no age throws it away."""
        secure = "; Secure" if self.options.secure_cookies else ""
        text = f"{name}={value}; Path=/; Max-Age={max_age}; HttpOnly; SameSite=Lax{secure}"
        return b"set-cookie", text.encode("latin-1")

    def visitor_key(self, request: Request) -> str | None:
        """What makes this browser, or app, one visitor."""
        cookie = request.cookies.get(self._visitor_cookie, "")
        header = request.header("wr-visitor")
        if cookie and header and cookie != header:
            raise Problem(400, "AMBIGUOUS_VISITOR", "the cookie and Wr-Visitor disagree")
        key = cookie or header
        return key if 22 <= len(key) <= 128 and key.isascii() and key.isprintable() else None

    def new_visitor_key(self) -> tuple[str, tuple[bytes, bytes]]:
        """A key for a new visitor, and the header that keeps it."""
        key = secrets.token_urlsafe(32)
        return key, self.set_cookie(self._visitor_cookie, key, self.options.ticket_s)

    def ticket(self, room: Room, place: Place, lane: Lane, pulse: Pulse) -> str:
        """Sign somebody's place."""
        now = int(self.now_s())
        return self.keyring.sign(
            QueueTicket(
                iss=self.options.issuer,
                aud=name_of(room.queue_id),
                iat=now,
                exp=now + self.options.ticket_s,
                jti=place.id,
                epoch=pulse.epoch,
                owner=place.owner,
                lane=lane,
            )
        )

    def session_token(self, room: Room, place: Place, pulse: Pulse, *, host: str) -> str:
        """Sign somebody's seat for the next two minutes."""
        now = int(self.now_s())
        return self.keyring.sign(
            SessionToken(
                iss=self.options.issuer,
                aud=name_of(room.queue_id),
                iat=now,
                exp=now + self.options.session_token_s,
                jti=new_id(self.bits),
                epoch=pulse.epoch,
                sub=place.id,
                owner=place.owner,
                host=host,
            )
        )

    async def holder(self, request: Request) -> tuple[Room, Pulse, Place]:
        """Where somebody with a ticket stands: the room, how it does, and their place in it."""
        room, pulse = await self.visited(request)
        return room, pulse, self._place(request, room, pulse)

    async def place(self, request: Request, room: Room) -> Place:
        """Whose place the ticket in the request is; a Problem when it shows none that counts."""
        return self._place(request, room, await self.pulse(room))

    def _place(self, request: Request, room: Room, pulse: Pulse) -> Place:
        name = name_of(room.queue_id)
        token = self._shown(request, self.cookie("q", name), bearer=True)
        if not token:
            raise Problem(401, "TICKET_REQUIRED", "this needs a ticket, got none")
        ticket = self._checked.get(token)
        if not isinstance(ticket, QueueTicket) or ticket.exp <= self.now_s():
            try:
                ticket = self.keyring.verify(
                    token,
                    QueueTicket,
                    audience=name,
                    issuer=self.options.issuer,
                    now_ms=self.clock.now_ms(),
                )
            except InvalidToken as error:
                raise Problem(401, error.code, str(error)) from None
            self._remember(token, ticket)
        if ticket.aud != name or ticket.epoch < pulse.epoch:
            raise Problem(401, "INVALID_TOKEN", "the ticket no longer counts here")
        return Place(ticket.jti, ticket.owner)

    def session_shown(self, request: Request, room: str) -> str:
        """The session token in a request, if any."""
        return self._shown(request, self.cookie("s", room), header="wr-session")

    def check_session(self, token: str, room: str, *, grace_s: int = 0) -> SessionToken:
        """Read a session token, also one that ran out less than the grace ago."""
        known = self._checked.get(token)
        if isinstance(known, SessionToken) and known.aud == room and known.exp > self.now_s():
            return known
        claims = self.keyring.verify(
            token,
            SessionToken,
            audience=room,
            issuer=self.options.issuer,
            now_ms=self.clock.now_ms(),
            leeway_s=LEEWAY_S + grace_s,
        )
        # The grace is for what ran out, not for what does not count yet.
        if max(claims.nbf, claims.iat) - LEEWAY_S > self.now_s():
            raise InvalidToken("the token does not count: it does not count yet")
        self._remember(token, claims)
        return claims

    def possession(self, request: Request, secret: str) -> str:
        """What shows that a place is one's own: the secret's digest, or the cookie's."""
        shown = secret or self.visitor_key(request)
        return digest_of(shown) if shown else ""

    def _shown(
        self, request: Request, cookie: str, *, bearer: bool = False, header: str = ""
    ) -> str:
        kept = request.cookies.get(cookie, "")
        said = request.header(header) if header else ""
        if bearer:
            scheme, _, said = request.header("authorization").partition(" ")
            said = said.strip() if scheme.lower() == "bearer" else ""
        if kept and said and kept != said:
            raise Problem(400, "AMBIGUOUS_TOKEN", "the cookie and the header disagree")
        return said or kept

    def _remember(self, token: str, claims: QueueTicket | SessionToken) -> None:
        if len(self._checked) >= MOST_REMEMBERED:
            del self._checked[next(iter(self._checked))]
        self._checked[token] = claims


def digest_of(secret: str) -> str:
    """The digest that `h` holds."""
    return hashlib.sha256(secret.encode()).hexdigest()


def audience_of(token: str) -> str:
    """The room that a token says it is for; to be believed only after it was verified."""
    return _said(token, "aud")


def subject_of(token: str) -> str:
    """The session that a token says it is for; to be believed only after it was verified."""
    return _said(token, "sub")


def _said(token: str, claim: str) -> str:
    try:
        _, payload, _ = token.split(".")
        return str(json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))[claim])
    except (ValueError, KeyError, TypeError):
        raise InvalidToken("the token does not count: it is not a token") from None


def require_own_site(request: Request) -> None:
    """Refuse what another site's page sends in the visitor's name."""
    if b"sec-fetch-site" not in request.headers and b"origin" not in request.headers:
        return
    site = request.header("sec-fetch-site")
    origin = request.header("origin")
    foreign = origin and origin.partition("://")[2] != request.host
    if site in ("cross-site", "same-site") or (not site and foreign):
        raise Problem(403, "CROSS_SITE", "this must be asked for by the room's own page")
