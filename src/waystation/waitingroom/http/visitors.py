"""Endpoints of visitors: join, heartbeat, claim, leave, notify.

The room sends no mail: it remembers a handle that means something to the site alone, and the site's
webhook hears it with the visitor's `admitted`.
"""

import hashlib
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from waystation.core import codec
from waystation.core.clock import Clock
from waystation.core.durations import milliseconds, whole_seconds
from waystation.core.http.endpoints import Endpoint, endpoint, offered
from waystation.core.http.exchange import (
    MOST_BODY,
    Answer,
    Request,
    answer,
    digest_of,
    require_own_site,
)
from waystation.core.http.pace import Pace
from waystation.core.http.problems import Code, Problem
from waystation.waitingroom.http import bodies
from waystation.waitingroom.http.bodies import Enqueue, PlaceBody, rfc3339
from waystation.waitingroom.http.context import (
    Header,
    Return,
    ServerContext,
    Tokens,
    onward,
    own,
    return_hosts,
    safe_path,
)
from waystation.waitingroom.http.fairness import Challenges, Fairness, crowded_bits_of
from waystation.waitingroom.http.options import Captcha, HttpKeys, RoomCode
from waystation.waitingroom.http.status import (
    OVER,
    Snapshots,
    Streams,
    is_over,
    require_open,
    status_body,
    word_of,
)
from waystation.waitingroom.operating.codes import Codes
from waystation.waitingroom.redis.store import STATE_S
from waystation.waitingroom.room import Room
from waystation.waitingroom.signing import EnqueueTicket
from waystation.waitingroom.state import RoomState
from waystation.waitingroom.visitor import (
    Begun,
    Forbidden,
    Gone,
    Joined,
    JoinRequest,
    Kept,
    Lane,
    Late,
    Passed,
    Place,
    Prequeued,
    Refused,
    VisitorStatus,
    network_of,
)

T = TypeVar("T")

KEPT_S = 600
LONGEST = 128


async def require_same(request: Request, room: Room, who: str, asked: object) -> None:
    """Refuse a request that comes under the key of another; without a key everything goes."""
    key = request.header("idempotency-key")
    if not key:
        return
    if len(key) > LONGEST:
        raise Problem(400, Code.MALFORMED, f"an Idempotency-Key may have {LONGEST} characters")
    what = hashlib.sha256(f"{who}|{key}".encode()).hexdigest()[:32]
    digest = hashlib.sha256(request.path.encode() + b"|" + codec.encode(asked)).hexdigest()[:32]
    at = HttpKeys(room.queue_id).of(what).idempotent
    kept = await room.store.ask("SET", at, digest, "EX", KEPT_S, "NX", "GET")
    if kept is not None and kept.decode() != digest:
        raise Problem(409, Code.IDEMPOTENCY_CONFLICT, "that key came with another request before")


INVITED = "invite|"
"""What the identity of somebody begins with who shows an invitation."""


class Admittance(msgspec.Struct, frozen=True):
    """What somebody joins as."""

    lane: Lane
    identity: str
    """The key by which the room knows a visitor again."""


class Invitations:
    """Reads what newcomers bring."""

    def __init__(self, tokens: Tokens, clock: Clock, *, guess_s: float) -> None:
        self._tokens = tokens
        # Wrong codes are few among people and many among guessers.
        self._wrong = Pace(every_s=guess_s, burst=10, clock=clock)

    async def welcome(
        self, request: Request, room: Room, state: RoomState, asked: Enqueue, key: str | None
    ) -> Admittance:
        """The lane that they may join; a Problem when they may join none."""
        if asked.ticket:
            invited = await self._invited(request, room, asked.ticket, state)
            return Admittance(invited.lane, f"{INVITED}{invited.key}")
        if asked.code and key is not None:
            return Admittance(await self._lane(request, room, asked.code, key), f"cookie|{key}")
        raise Problem(403, RoomCode.INVITE_REQUIRED, "this line is for those who were invited")

    async def _lane(self, request: Request, room: Room, code: str, key: str) -> Lane:
        self._wrong.require_left(request.address, "too many wrong codes came from there")
        lane = await Codes(room).redeem(code[:64], key)
        if lane is None:
            self._wrong.count(request.address)
            # One answer for all: whoever guesses does not learn that a code was there.
            raise Problem(403, Code.CODE_INVALID, "the code is not valid, or is used up")
        return lane

    async def _invited(
        self, request: Request, room: Room, ticket: str, state: RoomState
    ) -> EnqueueTicket:
        invited = self._tokens.read_invitation(ticket, room, state)
        if await room.revoked(invited.jti):
            raise Problem(401, RoomCode.INVALID_TOKEN, "the invitation was revoked")
        if invited.ip and invited.ip != network_of(request.address):
            raise Problem(403, RoomCode.WRONG_NETWORK, "this invitation is for another network")
        return invited


MOST_ANSWERED = 16_384
"""Bytes of a request to join where there is a CAPTCHA, whose answer may have thousands."""
LEAVING_S = 120
"""How long a place is kept for somebody whose page was closed."""

_FAILS = (400, 401, 403, 404, 410, 413, 415, 429, 503)
_ticket_endpoint = partial(endpoint, scope="ticket", fails=_FAILS)
_notify_endpoint = partial(endpoint, scope="ticket", fails=(400, 401, 403, 404, 410, 413, 415, 503))
_HANDLE = re.compile(r"[A-Za-z0-9_.:@+-]{1,128}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_REFUSED = {
    "full": (503, RoomCode.QUEUE_FULL, "the line is full"),
    "crowded": (429, Code.RATE_LIMITED, "too many come from there at once"),
    "rejected": (403, RoomCode.REJECTED, "nobody may join"),
    "draining": (503, RoomCode.DRAINING, "nobody may join any more"),
    "maintenance": (503, RoomCode.MAINTENANCE_MODE, "the room is closed for maintenance"),
    **{word: (410, *said) for word, said in OVER.items()},
}
_CHALLENGED = (
    403,
    RoomCode.CHALLENGE_REQUIRED,
    "many come from there at once: solve the room's challenge, or ask again later",
)


class Visitors:
    """The visitors' endpoints."""

    def __init__(self, context: ServerContext) -> None:
        rooms, clock, options = context.rooms, context.clock, context.options
        self._rooms = rooms
        self._cookies = context.cookies
        self._tokens = context.tokens
        self._holders = context.holders
        self._metrics = context.metrics
        self.snapshots = Snapshots(rooms, clock)
        captcha = Captcha(options.captcha, clock) if options.captcha else None
        self._most_asked = MOST_ANSWERED if captcha else MOST_BODY
        self._challenges = Challenges(rooms, context.cookies, context.tokens, captcha)
        self._streams = Streams(context.holders, options, clock)
        self._fairness = Fairness(rooms)
        self._invitations = Invitations(
            context.tokens, clock, guess_s=options.guess_floor_ms / 1000
        )
        floor_s = options.poll_floor
        self._polls = Pace(every_s=floor_s, burst=10, clock=clock)
        self._claims = Pace(every_s=floor_s, burst=20, clock=clock)

    @endpoint(
        "POST /api/v1/queues/{id}/enqueue",
        takes=bodies.Enqueue,
        gives={200: PlaceBody, 201: PlaceBody, 202: PlaceBody},
        fails=(400, 401, 403, 404, 409, 410, 413, 415, 429, 503),
    )
    async def enqueue(self, request: Request) -> Answer:
        """Join the room, or get the place the visitor has."""
        require_own_site(request)
        room, state = await self._rooms.visit(request.slots["id"])
        asked = await request.read(bodies.Enqueue, self._most_asked)
        newcomer = await self.newcomer(request, room, state, asked)
        if b"idempotency-key" in request.headers:
            await require_same(request, room, newcomer.key, asked)
        works = crowded_bits_of(state) > 0 and not newcomer.solved
        body, status, cookies = await self.join(
            request, room, state, newcomer, asked.target, works=works
        )
        return answer(body, status, *cookies)

    async def newcomer(
        self, request: Request, room: Room, state: RoomState, asked: bodies.Enqueue
    ) -> JoinRequest:
        """Who asks for a place; a Problem when they may not."""
        if asked.h and not _DIGEST.fullmatch(asked.h):
            raise Problem(400, Code.MALFORMED, "h must be a SHA-256 in hexadecimal")
        if asked.target:
            safe_path(asked.target)
        key = self._cookies.visitor_key(request)
        if key is None and not asked.ticket:
            _, cookie = self._cookies.new_visitor_key()
            # A client that keeps no cookies never gets a place, so it cannot hold up the line.
            raise Problem(
                401,
                RoomCode.VISITOR_KEY_REQUIRED,
                "ask again with the cookie, or bring a key of your own as Wr-Visitor",
                headers={"set-cookie": cookie[1].decode()},
            )
        agent = request.header("user-agent")[:256]
        if asked.ticket or asked.code or state.fields.get("invite_only") == "1":
            welcome = await self._invitations.welcome(request, room, state, asked, key)
        else:
            welcome = Admittance(Lane.NORMAL, f"cookie|{key}")
        identity = key or welcome.identity
        solved = await self._challenges.check(room, state, identity, asked, request.address)
        secret = asked.h or digest_of(key or "")
        if not asked.h and key is None:
            raise Problem(400, RoomCode.SECRET_REQUIRED, "without a visitor key h has to be there")
        metadata = codec.encode(asked.metadata).decode() if asked.metadata else ""
        return JoinRequest(
            key=welcome.identity,
            secret=secret,
            lane=welcome.lane,
            address=request.address or None,
            agent=agent,
            metadata=metadata,
            solved=solved,
        )

    async def join(
        self,
        request: Request,
        room: Room,
        state: RoomState,
        newcomer: JoinRequest,
        target: str = "",
        *,
        works: bool = False,
    ) -> tuple[PlaceBody, int, list[Header]]:
        """Join: the place, the status of the answer, and its cookies.

        With `works` somebody of a crowded network is set a challenge, not refused.
        """
        name = room.name
        entry = await room.join(newcomer)
        if isinstance(entry, Kept) and newcomer.key.startswith(INVITED):
            # Whoever shows the invitation may claim the place, on whatever device it was opened.
            await room.rebind(entry.place, newcomer.secret)
        self._metrics.arrivals.of(name, type(entry).__name__.lower()).inc()
        match entry:
            case Refused(reason=reason, retry_after_ms=retry_ms):
                challenged = reason == "crowded" and works
                http_status, code, detail = _CHALLENGED if challenged else _REFUSED[reason]
                after = str(max(1, -(-retry_ms // 1000))) if retry_ms else "30"
                later = challenged or http_status in (429, 503)
                headers = {"retry-after": after} if later else {}
                raise Problem(http_status, code, detail, headers=headers)
            case Passed(place=place, status=status):
                body = status_body(room, place, status, state)
                body.status = "pass"
                body.session_token = self._tokens.sign_session(
                    room, place, state, host=request.host
                )
                body.redirect_url = self.redirect_url(state, target)
                http_status = 200
            case Joined(place=place, status=status) | Kept(place=place, status=status):
                body = status_body(room, place, status, state)
                http_status = 201 if isinstance(entry, Joined) else 200
                if isinstance(status, Prequeued) and isinstance(entry, Joined):
                    http_status = 202
                if body.estimated_wait.p50 is not None and isinstance(entry, Joined):
                    self._metrics.shown_wait.of(name).observe(body.estimated_wait.p50)
        body.token = self._tokens.sign_ticket(room, entry.place, newcomer.lane, state)
        cookies = [self._cookies.keep_ticket(name, body.token)]
        if body.session_token:
            cookies.append(self.session_cookie(room, state, body.session_token))
        return body, http_status, cookies

    @_ticket_endpoint(
        "GET /api/v1/queues/{id}/status",
        gives={200: PlaceBody},
        fails=(400, 401, 404, 410, 429, 503),
    )
    async def status(self, request: Request) -> Answer:
        """The visitor's status; changes nothing."""
        room, state, place = await self._holders.find(request)
        self._polls.require(place.id)
        status = await room.status(place)
        require_open(state, status)
        _require_here(status)
        return answer(status_body(room, place, status, state))

    @_ticket_endpoint(
        "POST /api/v1/queues/{id}/heartbeat", takes=bodies.Beat, gives={200: PlaceBody}
    )
    async def heartbeat(self, request: Request) -> Answer:
        """Keep the visitor's place."""
        room, state, place, asked = await self._asked(request, bodies.Beat)
        self._polls.require(place.id)
        require_open(state, await room.status(place) if is_over(state) else None)
        status = own(
            await room.heartbeat(
                place,
                leaving=LEAVING_S if asked.leaving else None,
                secret=self._cookies.possession(request, asked.secret),
            )
        )
        _require_here(status)
        body = status_body(room, place, status, state)
        body.next_heartbeat_seconds = body.heartbeat_after_ms / 1000
        return answer(body)

    @_ticket_endpoint(
        "POST /api/v1/queues/{id}/claim",
        takes=bodies.Claim,
        gives={200: bodies.SessionBegun, 202: PlaceBody},
    )
    async def claim(self, request: Request) -> Answer:
        """Begin the session of a visitor whose turn it is."""
        room, state, place, asked = await self._asked(request, bodies.Claim)
        # Before the turn is taken: a return address that is spoiled must not cost it.
        destination = self.redirect_url(state, "", asked.back, room)
        begun = await self.begin(request, room, place, asked.secret)
        if not isinstance(begun, Begun):
            return answer(status_body(room, place, begun, state), 202)
        token = self._tokens.sign_session(room, place, state, host=request.host)
        onto = await onward(room, place, destination, host=request.host)
        body = bodies.SessionBegun(
            status="active",
            session_id=begun.session_id,
            session_token=token,
            expires_at=rfc3339(begun.until_ms),
            max_expires_at=rfc3339(state.now_ms + milliseconds(state.options.session_max)),
            redirect_url=onto,
            queue_id=room.name,
        )
        # A cookie of this host is of no use to a site on another.
        cookies = [self.session_cookie(room, state, token)] if onto == destination else []
        return answer(body, 200, *cookies)

    async def begin(
        self, request: Request, room: Room, place: Place, secret: str
    ) -> Begun | VisitorStatus:
        """Take the turn; a Problem when it is not theirs to take or is over."""
        self._claims.require(place.id)
        begun = await room.claim(place, self._cookies.possession(request, secret))
        result = "begun" if isinstance(begun, Begun) else "forbidden"
        if not isinstance(begun, Begun | Forbidden):
            result = word_of(begun)
        self._metrics.claims.of(room.name, result).inc()
        begun = own(begun)
        if not isinstance(begun, Begun):
            require_open(await room.state(max_age=STATE_S), begun)
            _require_here(begun)
        return begun

    @_ticket_endpoint(
        "POST /api/v1/queues/{id}/recover", takes=bodies.Possession, gives={200: PlaceBody}
    )
    async def recover(self, request: Request) -> Answer:
        """Recover a missed turn."""
        _, body = await self._taken_back(request, Room.recover)
        return answer(body)

    @_ticket_endpoint(
        "DELETE /api/v1/queues/{id}/position",
        takes=bodies.Possession,
        gives={200: bodies.Left},
        fails=(*_FAILS, 409),
    )
    async def leave(self, request: Request) -> Answer:
        """Leave the room."""
        room, state, place, asked = await self._asked(request, bodies.Possession)
        left = own(await room.leave(place, self._cookies.possession(request, asked.secret)))
        if not left:
            raise Problem(404, Code.NOT_FOUND, "there was no place to give up")
        until = await room.rejoinable_until(place)
        body = bodies.Left(status="cancelled", rejoinable_until=until and rfc3339(until))
        return answer(body, 200, self.leaver_cookie(request, room, state))

    @_ticket_endpoint(
        "POST /api/v1/queues/{id}/rejoin", takes=bodies.Possession, gives={200: PlaceBody}
    )
    async def rejoin(self, request: Request) -> Answer:
        """Take having left back, within a short time: the old place again."""
        room, body = await self._taken_back(request, Room.rejoin)
        return answer(body, 200, self.rejoined_cookie(request, room))

    @_notify_endpoint(
        "POST /api/v1/queues/{id}/notify", takes=bodies.Handle, gives={201: bodies.Done}
    )
    async def notify(self, request: Request) -> Answer:
        """Ask the site to notify me when it is my turn."""
        require_own_site(request)
        asked = await request.read(bodies.Handle)
        if not _HANDLE.fullmatch(asked.handle):
            raise Problem(400, Code.MALFORMED, "a handle is 1 to 128 of A-Z a-z 0-9 _ . : @ + -")
        await self._remember(request, asked.secret, asked.handle)
        return answer(bodies.Done(status="noted"), 201)

    @_notify_endpoint(
        "DELETE /api/v1/queues/{id}/notify", takes=bodies.Possession, gives={204: None}
    )
    async def forget(self, request: Request) -> Answer:
        """Stop the notification."""
        require_own_site(request)
        await self._remember(request, (await request.read(bodies.Possession)).secret, "")
        return Answer(204)

    async def _remember(self, request: Request, secret: str, handle: str) -> None:
        room, _, place = await self._holders.find(request)
        if not own(await room.notify(place, self._cookies.possession(request, secret), handle)):
            raise Problem(410, RoomCode.PLACE_LOST, "there is no such place in line any more")

    async def _taken_back(
        self, request: Request, step: Callable[..., Awaitable[Forbidden | VisitorStatus]]
    ) -> tuple[Room, PlaceBody]:
        """What a visitor gets back by a step of the room's, who must show that it was theirs."""
        room, state, place, asked = await self._asked(request, bodies.Possession)
        self._claims.require(place.id)
        require_open(state)
        status = own(await step(room, place, self._cookies.possession(request, asked.secret)))
        _require_here(status)
        return room, status_body(room, place, status, state)

    async def _asked(self, request: Request, kind: type[T]) -> tuple[Room, RoomState, Place, T]:
        """The room, its state, the place of whoever shows a ticket, and what they ask for."""
        require_own_site(request)
        return *await self._holders.find(request), await request.read(kind)

    def leaver_cookie(self, request: Request, room: Room, state: RoomState) -> Header:
        """The header that keeps the ticket of somebody who left as long as it may be of use."""
        ticket, rejoin_s = self._cookies.ticket(request, room.name), state.options.rejoin
        return self._cookies.keep_ticket(room.name, ticket, whole_seconds(rejoin_s))

    def rejoined_cookie(self, request: Request, room: Room) -> Header:
        """The header that keeps the ticket of somebody who is back as long as any."""
        return self._cookies.keep_ticket(room.name, self._cookies.ticket(request, room.name))

    def session_cookie(self, room: Room, state: RoomState, token: str) -> Header:
        """The header that keeps a session token as long as the session may last."""
        return self._cookies.keep_session(
            room.name, token, whole_seconds(state.options.session_max)
        )

    def redirect_url(
        self, state: RoomState, target: str, sealed: str = "", room: Room | None = None
    ) -> str:
        """Where to go on to: the sealed address, the room's own, or a path."""
        if sealed and room is not None:
            back = self._tokens.seal.open(sealed, queue=room.name, now_s=self._tokens.now_s())
            return _address(back, return_hosts(state))
        if target:
            return safe_path(target)
        return state.options.target_url or "/"

    def endpoints(self) -> Iterator[Endpoint]:
        """The visitors' part of the table."""
        parts = (
            self,
            self._challenges,
            self.snapshots,
            self._streams,
            self._fairness,
        )
        return offered(*parts, group="visitor")


def _address(back: Return, hosts: Sequence[str]) -> str:
    # A host may have been taken off the list since the link was sealed.
    return f"//{back.host}{back.path}" if back.host in hosts else back.path


def _require_here(status: VisitorStatus) -> None:
    if isinstance(status, Late):
        raise Problem(
            410,
            RoomCode.TURN_MISSED,
            "the turn is over; it can be taken back for a while",
            recoverable_until=rfc3339(status.until_ms),
            status_word="missed",
        )
    if isinstance(status, Gone):
        raise Problem(410, RoomCode.PLACE_LOST, "there is no such place in line any more")
