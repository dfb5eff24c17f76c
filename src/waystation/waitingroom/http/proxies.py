"""Endpoints of proxies and connectors: verify, redeem, rules.

A script on a site may ask what a site's server may, and only on the hosts that an operator has
named in `return_hosts`. Cookies are never part of it, so no page can act in a visitor's name.
"""

import hashlib
import secrets
from collections.abc import Iterator, Mapping
from urllib.parse import quote, urlsplit

import msgspec

from waystation.core import codec
from waystation.core.durations import whole_seconds
from waystation.core.errors import InvalidInput, InvalidToken, NotFound
from waystation.core.http.endpoints import Endpoint, endpoint, offered
from waystation.core.http.exchange import NO_STORE, Answer, Headers, Request
from waystation.core.http.problems import Code, Problem
from waystation.waitingroom.http.context import (
    RENEW_WITHIN_S,
    ServerContext,
    return_hosts,
    safe_path,
    split_token,
)
from waystation.waitingroom.http.options import RoomCode
from waystation.waitingroom.http.sites import Entered, Entries, Sessions
from waystation.waitingroom.pages.render import source
from waystation.waitingroom.redis.store import STATE_S
from waystation.waitingroom.room import Room
from waystation.waitingroom.rooms import Rooms
from waystation.waitingroom.rules import EVERYTHING, stored_rules
from waystation.waitingroom.state import RoomState
from waystation.waitingroom.visitor import Inside

_PATHS = ("/v1/enter", "/v1/redeem", "/v1/verify")
_SESSIONS = "/api/v1/sessions/"
_SHOWN = b"retry-after, wr-location"
_VARY = (b"vary", b"origin")
PREFLIGHT_S = 600


class Origins:
    """Answers browsers that ask whether a page of another host may ask."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms

    def concerns(self, request: Request) -> bool:
        """Whether a script of another host may be asking for something that it may ask for."""
        if b"origin" not in request.headers:
            return False
        return request.path in _PATHS or request.path.startswith(_SESSIONS)

    async def preflight(self, request: Request) -> Answer | None:
        """The answer to a browser that asks beforehand; None for everything else."""
        if request.method != "OPTIONS" or not request.header("access-control-request-method"):
            return None
        if not await self._is_known(request):
            return Answer(403, headers=[_VARY])
        return Answer(
            204,
            headers=[
                (b"access-control-allow-origin", request.headers[b"origin"]),
                (b"access-control-allow-methods", b"GET, POST"),
                (b"access-control-allow-headers", b"content-type, wr-session"),
                (b"access-control-max-age", b"%d" % PREFLIGHT_S),
                _VARY,
            ],
        )

    async def marked(self, request: Request, given: Answer) -> Answer:
        """The same answer, which the asking page may read if its host is known."""
        added: Headers = [_VARY]
        if await self._is_known(request):
            added.append((b"access-control-allow-origin", request.headers[b"origin"]))
            added.append((b"access-control-expose-headers", _SHOWN))
        return msgspec.structs.replace(given, headers=[*given.headers, *added])

    async def _is_known(self, request: Request) -> bool:
        origin = urlsplit(request.header("origin"))
        if origin.scheme not in ("http", "https") or not origin.netloc:
            return False
        states = await self._rooms.states(STATE_S)
        return any(origin.netloc in return_hosts(state) for _, state in states)


ENVOY = "/v1/verify/envoy/"
_UNQUOTED = "/:@!$&'()*+,;=~"
"""What a path may hold besides letters and digits; all else is written as %XX again."""
KEYS_FRESH = (b"cache-control", b"public, max-age=300")
CONFIG_FRESH = (b"cache-control", b"public, max-age=5")
_GUARD = source("guard.js").encode()
_GUARD_TAG = b'"' + hashlib.sha256(_GUARD).hexdigest()[:16].encode() + b'"'


class ProxyRoutes:
    """The endpoints of proxies and middleware."""

    def __init__(self, context: ServerContext, sessions: Sessions, entries: Entries) -> None:
        self._entries = entries
        self._public_url = context.options.public_url.rstrip("/")
        self._rooms = context.rooms
        self._cookies = context.cookies
        self._tokens = context.tokens
        self._metrics = context.metrics
        self._sessions = sessions
        self._shown: dict[str, dict[str, object]] = {}
        """What connectors were told last of each room."""

    @endpoint(
        "GET /v1/verify",
        gives={204: None, 303: None},
        query={
            "queue": {"type": "string", "minLength": 1},
            "mode": {"type": "string", "enum": ["redirect"]},
        },
        needs=("queue",),
        fails=(400, 401, 404, 429, 503),
    )
    async def verify(self, request: Request) -> Answer:
        """Verify a visitor: 204, or 401 and where to wait; 303 or 429 in redirect mode."""
        name = request.query.get("queue", "")
        if not name:
            raise Problem(400, RoomCode.QUEUE_REQUIRED, "say which room: ?queue=name")
        path = request.header("x-original-uri") or request.header("x-forwarded-uri")
        method = request.header("x-original-method") or request.header("x-forwarded-method")
        mode = request.query.get("mode")
        if mode not in (None, "redirect"):
            raise Problem(400, Code.MALFORMED, "mode must be redirect, or not be there")
        redirect = mode is not None
        return await self._decide(request, name, path, method if redirect else None)

    async def verify_for_envoy(self, request: Request) -> Answer:
        """The same for Envoy, which asks with the visitor's own method behind a prefix."""
        name, _, rest = request.path.removeprefix(ENVOY).partition("/")
        query = f"?{request.query_string}" if request.query_string else ""
        path = f"/{quote(rest, safe=_UNQUOTED)}{query}"
        given = await self._decide(request, name, path, request.method)
        # Any other answer, a 204 among them, is one that Envoy hands to the visitor.
        return Answer(200, headers=given.headers) if given.status == 204 else given

    async def _decide(
        self, request: Request, name: str, path: str, navigates: str | None
    ) -> Answer:
        room, state = await self._rooms.visit(name)
        path, brought = split_token(path)
        if state.fail_open:
            return self._counted(name, "fail_open", _passing(request, name))
        token = self._cookies.session(request, name)
        headers = await self._pass(request, name, token) if token else None
        if headers is not None:
            return self._counted(name, "passed", _passing(request, name, *headers))
        if brought and (headers := await self._redeemed(request, room, brought)):
            # Where the answer goes to the browser, the token leaves the address at once.
            given = _passing(request, name, *headers)
            if navigates is not None:
                location = (b"location", self._clean(path).encode())
                given = Answer(303, headers=[*headers, location])
            return self._counted(name, "entered", given)
        if request.wants_page and (headers := await self._straight(request, room, state)):
            return self._counted(name, "entered", _passing(request, name, *headers))
        back = self._sealed(request, room, state, path)
        return self._counted(name, "queued", self._wait(request, room, back, navigates))

    async def _pass(self, request: Request, name: str, token: str) -> Headers | None:
        """The answer for somebody whose session is valid; None when it is not."""
        try:
            seat = await self._sessions.read(token)
        except InvalidToken:
            return None
        if seat.room.name != name:
            return None
        headers = [_visitor(seat.claims.sub), NO_STORE]
        if seat.claims.exp - self._tokens.now_s() < RENEW_WITHIN_S:
            try:
                fresh = await self._sessions.sign_again(seat, request.site_host, views=1)
            except NotFound:
                return None
            lasts_s = whole_seconds(seat.state.options.session_max)
            headers.append(self._cookies.keep_session(name, fresh, lasts_s))
        elif not isinstance(await seat.room.status(seat.place), Inside):
            # The signature outlives a session that was ended; the seat may be somebody else's.
            return None
        return headers

    async def _straight(self, request: Request, room: Room, state: RoomState) -> Headers:
        """The answer for somebody who passes without waiting; None for those who wait."""
        entered = await self._entries.straight(
            request,
            room,
            state,
            address=request.address,
            agent=request.header("user-agent"),
            host=request.site_host,
        )
        return self._entered(entered) if entered else []

    async def _redeemed(self, request: Request, room: Room, token: str) -> Headers:
        """The answer for somebody whose session the waiting page has handed over."""
        entered = await self._entries.redeem(token, request.site_host)
        return self._entered(entered) if entered and entered.room.name == room.name else []

    def _entered(self, entered: Entered) -> Headers:
        lasts_s = whole_seconds(entered.state.options.session_max)
        cookie = self._cookies.keep_session(entered.room.name, entered.token, lasts_s)
        return [_visitor(entered.place.id), NO_STORE, cookie]

    def _clean(self, path: str) -> str:
        try:
            return safe_path(path)
        except InvalidInput:
            return "/"

    def _sealed(self, request: Request, room: Room, state: RoomState, path: str) -> str:
        """Where the visitor wants to go: on this host, or on one that the operator named."""
        back = self._clean(path)
        # Anybody can send any host; one that went into the link unchecked would lead there.
        host = request.site_host if request.site_host in return_hosts(state) else ""
        return self._tokens.seal_target(room, host, back)

    def _wait(self, request: Request, room: Room, sealed: str, navigates: str | None) -> Answer:
        name = room.name
        page = self._public_url if urlsplit(self._public_url).netloc != request.site_host else ""
        location = f"{page}/wait/{name}?r={sealed}".encode()
        headers = [(b"wr-location", location), (b"wr-queue", name.encode()), NO_STORE]
        kind = b"application/problem+json"
        if navigates is None:
            realm = (b"www-authenticate", b'WaitingRoom realm="waiting room"')
            return Answer(401, _required(401), kind, [*headers, realm])
        if request.wants_page and (navigates or request.method) in ("GET", "HEAD"):
            return Answer(303, headers=[*headers, (b"location", location)])
        return Answer(429, _required(429), kind, [*headers, (b"retry-after", b"5")])

    def _counted(self, name: str, result: str, given: Answer) -> Answer:
        self._metrics.verified.of(name, result).inc()
        return given

    @endpoint("GET /.well-known/jwks.json")
    async def jwks(self, request: Request) -> Answer:
        """The public keys that verify session tokens."""
        return Answer(200, codec.encode(self._tokens.keyring.jwks()), headers=[KEYS_FRESH])

    @endpoint("GET /v1/connector-config", gives={200: dict, 304: None}, fails=(503,))
    async def config(self, request: Request) -> Answer:
        """The requests that each room protects; signed with `Accept: application/jose`."""
        looked = await self._rooms.each_state(STATE_S)
        # A room that cannot be read is protected as it was; only its own rules may open it.
        self._shown = {
            room.name: _config_of(room, state) if state else self._shown.get(room.name, _shut(room))
            for room, state in looked
        }
        config = {"issuer": self._tokens.issuer, "queues": list(self._shown.values())}
        if request.header("accept") == "application/jose":
            return self._signed(config)
        raw = codec.encode(config)
        tag = b'"' + hashlib.sha256(raw).hexdigest()[:16].encode() + b'"'
        headers = [CONFIG_FRESH, (b"etag", tag)]
        if request.headers.get(b"if-none-match") == tag:
            return Answer(304, headers=headers)
        return Answer(200, raw, headers=headers)

    def _signed(self, config: Mapping[str, object]) -> Answer:
        claims = codec.encode({**config, "iat": int(self._tokens.now_s())})
        token = self._tokens.keyring.sign_config(claims)
        return Answer(200, token.encode(), b"application/jose", [NO_STORE])

    @endpoint("GET /v1/guard.js", gives={200: None, 304: None})
    async def guard(self, request: Request) -> Answer:
        """The script that puts a room in front of a static page."""
        headers = [KEYS_FRESH, (b"etag", _GUARD_TAG)]
        if request.headers.get(b"if-none-match") == _GUARD_TAG:
            return Answer(304, headers=headers)
        return Answer(200, _GUARD, b"text/javascript; charset=utf-8", headers)

    def endpoints(self) -> Iterator[Endpoint]:
        """The connectors' part of the table."""
        return offered(self, group="connectors")


def _config_of(room: Room, state: RoomState) -> dict[str, object]:
    until_ms = state.fail_open_until_ms or 0
    return {
        **_shut(room),
        "epoch": state.epoch,
        "fail_policy": state.fields.get("fail_policy", ""),
        "waiting_page": state.options.waiting_page.value,
        "fail_open": state.fail_open,
        "fail_open_until": until_ms // 1000 if state.fail_open else 0,
        "rules": stored_rules(state.fields.get("rules", "")),
    }


def _shut(room: Room) -> dict[str, object]:
    """A room of which nothing is known: everything may be behind it."""
    return {
        "id": room.name,
        "wait_url": f"/wait/{room.name}",
        "epoch": 0,
        "fail_policy": "",
        "waiting_page": "",
        "fail_open": False,
        "fail_open_until": 0,
        "rules": [EVERYTHING],
    }


def _passing(request: Request, name: str, *headers: tuple[bytes, bytes]) -> Answer:
    """Let a request pass; a proxy may hand on only the cookies named in this answer."""
    given = [(b"wr-queue", name.encode()), *headers]
    if others := request.cookies_of_others:
        given.append((b"cookie", others.encode("latin-1")))
    return Answer(204, headers=given)


def _visitor(session: str) -> tuple[bytes, bytes]:
    """The header that tells a site one visitor from another, and nothing else."""
    return b"wr-visitor", hashlib.sha256(session.encode()).hexdigest()[:16].encode()


def _required(status: int) -> bytes:
    detail = "there is a line; Wr-Location says where"
    return Problem(status, RoomCode.WAITING_ROOM_REQUIRED, detail).body(secrets.token_hex(8))
