"""What visitors can ask: join, look, beat, take their turn, take it back, leave."""

import re
from collections.abc import Iterator, Sequence

from waystation.core import codec
from waystation.waitingroom.http import bodies
from waystation.waitingroom.http.bodies import PlaceBody
from waystation.waitingroom.http.context import Desk, digest_of, require_own_site
from waystation.waitingroom.http.framework.endpoints import Endpoint, endpoint, offered
from waystation.waitingroom.http.framework.exchange import Answer, Request, answer
from waystation.waitingroom.http.framework.pace import Pace
from waystation.waitingroom.http.framework.problems import Problem
from waystation.waitingroom.http.returns import Return, return_hosts, safe_path
from waystation.waitingroom.http.visitors.challenge import Challenges, bits_of
from waystation.waitingroom.http.visitors.fairness import Fairness
from waystation.waitingroom.http.visitors.idempotency import require_same
from waystation.waitingroom.http.visitors.invitations import Invitations
from waystation.waitingroom.http.visitors.notify import Notify
from waystation.waitingroom.http.visitors.snapshots import Snapshots
from waystation.waitingroom.http.visitors.status import (
    cloudflare_shape,
    instant,
    standing_body,
    word_of,
)
from waystation.waitingroom.http.visitors.streams import Streams
from waystation.waitingroom.room import Begun, Forbidden, Joined, Kept, Passed, Refused, Room
from waystation.waitingroom.rooms import name_of
from waystation.waitingroom.state import Pulse
from waystation.waitingroom.visitor import Gone, Late, Newcomer, Place, Prequeued, Standing

LEAVING_S = 120
"""How long a place is kept for somebody whose page was closed."""

_FAILS = (400, 401, 403, 404, 410, 413, 415, 429, 503)
_DIGEST = re.compile(r"[0-9a-f]{64}")
_REFUSED = {
    "full": (503, "QUEUE_FULL", "the line is full"),
    "crowded": (429, "RATE_LIMITED", "too many come from there at once"),
    "rejected": (403, "REJECTED", "nobody may join"),
    "draining": (503, "DRAINING", "nobody may join any more"),
    "maintenance": (503, "MAINTENANCE_MODE", "the room is closed for maintenance"),
    "closed": (410, "ENDED", "it is over"),
}


class Visitors:
    """The visitors' endpoints."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.snapshots = Snapshots(desk)
        self.challenges = Challenges(desk)
        self._streams = Streams(desk)
        self._fairness = Fairness(desk)
        self._invitations = Invitations(desk)
        self._notify = Notify(desk)
        floor_s = desk.options.poll_floor_ms / 1000
        self._polls = Pace(every_s=floor_s, burst=10, clock=desk.clock)
        self._claims = Pace(every_s=floor_s, burst=20, clock=desk.clock)

    @endpoint(
        "POST /api/v1/queues/{id}/enqueue",
        takes=bodies.Enqueue,
        gives={200: PlaceBody, 201: PlaceBody, 202: PlaceBody},
        fails=(400, 401, 403, 404, 409, 410, 413, 415, 429, 503),
    )
    async def enqueue(self, request: Request) -> Answer:
        """Give somebody a place, or the one they have."""
        require_own_site(request)
        room, pulse = await self.desk.visited(request)
        asked = await request.read(bodies.Enqueue)
        newcomer = await self.newcomer(request, room, pulse, asked)
        if b"idempotency-key" in request.headers:
            await require_same(self.desk, request, room, newcomer.key, asked)
        return await self.join(request, room, pulse, newcomer, asked.target)

    async def newcomer(
        self, request: Request, room: Room, pulse: Pulse, asked: bodies.Enqueue
    ) -> Newcomer:
        """Who asks for a place; a Problem when they may not."""
        if asked.h and not _DIGEST.fullmatch(asked.h):
            raise Problem(400, "MALFORMED", "h must be a SHA-256 in hexadecimal")
        if asked.target:
            safe_path(asked.target)
        key = self.desk.visitor_key(request)
        if key is None and not asked.ticket:
            _, cookie = self.desk.new_visitor_key()
            # A client that keeps no cookies never gets a place, so it cannot hold up the line.
            raise Problem(
                401,
                "VISITOR_KEY_REQUIRED",
                "ask again with the cookie, or bring a key of your own as Wr-Visitor",
                headers={"set-cookie": cookie[1].decode()},
            )
        invitations = self._invitations
        welcome = invitations.unasked(pulse, asked, key) or await invitations.welcome(
            request, room, pulse, asked, key
        )
        if bits_of(pulse):
            await self.challenges.require(room, pulse, key or welcome.identity, asked.pow)
        secret = asked.h or digest_of(key or "")
        if not asked.h and key is None:
            raise Problem(400, "SECRET_REQUIRED", "without a visitor key h has to be there")
        metadata = codec.encode(asked.metadata).decode() if asked.metadata else ""
        return Newcomer(
            key=welcome.identity,
            secret=secret,
            lane=welcome.lane,
            address=request.address or None,
            agent=request.header("user-agent")[:256],
            metadata=metadata,
        )

    async def join(
        self, request: Request, room: Room, pulse: Pulse, newcomer: Newcomer, target: str = ""
    ) -> Answer:
        """Join, and tell what came of it."""
        name = name_of(room.queue_id)
        entry = await room.join(newcomer)
        self.desk.metrics.arrivals.of(name, type(entry).__name__.lower()).inc()
        match entry:
            case Refused(reason=reason, retry_after_ms=retry_ms):
                status, code, detail = _REFUSED[reason]
                after = str(max(1, -(-retry_ms // 1000))) if retry_ms else "30"
                headers = {"retry-after": after} if status in (429, 503) else {}
                raise Problem(status, code, detail, headers=headers)
            case Passed(place=place, standing=standing):
                body = standing_body(room, place, standing, pulse)
                body.status = "pass"
                body.session_token = self.desk.session_token(room, place, pulse, host=request.host)
                body.redirect_url = self.redirect_url(pulse, target)
                status = 200
            case Joined(place=place, standing=standing) | Kept(place=place, standing=standing):
                body = standing_body(room, place, standing, pulse)
                status = 201 if isinstance(entry, Joined) else 200
                if isinstance(standing, Prequeued) and isinstance(entry, Joined):
                    status = 202
                if body.estimated_wait.p50 is not None and isinstance(entry, Joined):
                    self.desk.metrics.shown_wait.of(name).observe(body.estimated_wait.p50)
        body.token = self.desk.ticket(room, entry.place, newcomer.lane, pulse)
        cookies = [
            self.desk.set_cookie(
                self.desk.cookie("q", name), body.token, self.desk.options.ticket_s
            )
        ]
        if body.session_token:
            cookies.append(self.session_cookie(room, pulse, body.session_token))
        return answer(body, status, *cookies)

    @endpoint(
        "GET /api/v1/queues/{id}/status",
        scope="ticket",
        gives={200: PlaceBody},
        query={"format": {"type": "string", "enum": ["cf"]}},
        fails=(400, 401, 404, 410, 429, 503),
    )
    async def status(self, request: Request) -> Answer:
        """How things stand; changes nothing."""
        room, pulse, place = await self.desk.holder(request)
        shape = request.query.get("format")
        if shape not in (None, "cf"):
            raise Problem(400, "MALFORMED", "format must be cf, or not be there")
        self._polls.require(place.id)
        standing = await room.status(place)
        _require_here(standing)
        body = standing_body(room, place, standing, pulse)
        if shape == "cf":
            return answer(cloudflare_shape(body, pulse))
        return answer(body)

    @endpoint(
        "POST /api/v1/queues/{id}/heartbeat",
        scope="ticket",
        takes=bodies.Beat,
        gives={200: PlaceBody},
        fails=_FAILS,
    )
    async def heartbeat(self, request: Request) -> Answer:
        """Say that somebody is still there."""
        require_own_site(request)
        room, pulse, place = await self.desk.holder(request)
        asked = await request.read(bodies.Beat)
        self._polls.require(place.id)
        standing = await room.heartbeat(place, leaving_s=LEAVING_S if asked.leaving else None)
        _require_here(standing)
        body = standing_body(room, place, standing, pulse)
        body.next_heartbeat_seconds = body.heartbeat_after_ms / 1000
        return answer(body)

    @endpoint(
        "POST /api/v1/queues/{id}/claim",
        scope="ticket",
        takes=bodies.Claim,
        gives={200: bodies.SessionBegun, 202: PlaceBody},
        fails=_FAILS,
    )
    async def claim(self, request: Request) -> Answer:
        """Come in."""
        require_own_site(request)
        room, pulse, place = await self.desk.holder(request)
        asked = await request.read(bodies.Claim)
        # Before the turn is taken: a return address that is spoiled must not cost it.
        destination = self.redirect_url(pulse, "", asked.back, room)
        begun = await self.begin(request, room, place, asked.secret)
        if not isinstance(begun, Begun):
            return answer(standing_body(room, place, begun, pulse), 202)
        token = self.desk.session_token(room, place, pulse, host=request.host)
        body = bodies.SessionBegun(
            status="active",
            session_id=begun.session_id,
            session_token=token,
            expires_at=instant(begun.until_ms),
            max_expires_at=instant(pulse.now_ms + pulse.options.session_max_s * 1000),
            redirect_url=destination,
        )
        return answer(body, 200, self.session_cookie(room, pulse, token))

    async def begin(
        self, request: Request, room: Room, place: Place, secret: str
    ) -> Begun | Standing:
        """Take the turn; a Problem when it is not theirs to take or is over."""
        self._claims.require(place.id)
        begun = await room.claim(place, self.desk.possession(request, secret) or "-")
        result = "begun" if isinstance(begun, Begun) else "forbidden"
        if not isinstance(begun, Begun | Forbidden):
            result = word_of(begun)
        self.desk.metrics.claims.of(name_of(room.queue_id), result).inc()
        if isinstance(begun, Forbidden):
            raise Problem(403, "NOT_YOURS", "the secret of this place is another")
        if not isinstance(begun, Begun):
            _require_here(begun)
        return begun

    @endpoint(
        "POST /api/v1/queues/{id}/recover",
        scope="ticket",
        takes=bodies.Possession,
        gives={200: PlaceBody},
        fails=_FAILS,
    )
    async def recover(self, request: Request) -> Answer:
        """Take a missed turn back."""
        require_own_site(request)
        room, pulse, place = await self.desk.holder(request)
        asked = await request.read(bodies.Possession)
        self._claims.require(place.id)
        standing = await room.recover(place, self.desk.possession(request, asked.secret) or "-")
        if isinstance(standing, Forbidden):
            raise Problem(403, "NOT_YOURS", "the secret of this place is another")
        _require_here(standing)
        return answer(standing_body(room, place, standing, pulse))

    @endpoint(
        "DELETE /api/v1/queues/{id}/position",
        scope="ticket",
        takes=bodies.Possession,
        gives={200: bodies.Done},
        fails=(*_FAILS, 409),
    )
    async def leave(self, request: Request) -> Answer:
        """Give the place up."""
        require_own_site(request)
        room, _, place = await self.desk.holder(request)
        asked = await request.read(bodies.Possession)
        left = await room.leave(place, self.desk.possession(request, asked.secret) or "-")
        if isinstance(left, Forbidden):
            raise Problem(403, "NOT_YOURS", "the secret of this place is another")
        if not left:
            raise Problem(404, "NOT_FOUND", "there was no place to give up")
        return answer(bodies.Done(status="cancelled"), 200, self.forget_ticket(room))

    def session_cookie(self, room: Room, pulse: Pulse, token: str) -> tuple[bytes, bytes]:
        """The header that keeps a session token as long as the session may last."""
        name = self.desk.cookie("s", name_of(room.queue_id))
        return self.desk.set_cookie(name, token, pulse.options.session_max_s)

    def forget_ticket(self, room: Room) -> tuple[bytes, bytes]:
        """The header that throws a ticket away."""
        return self.desk.set_cookie(self.desk.cookie("q", name_of(room.queue_id)), "", 0)

    def redirect_url(
        self, pulse: Pulse, target: str, sealed: str = "", room: Room | None = None
    ) -> str:
        """Where to go on to: the sealed address, the room's own, or a path."""
        if sealed and room is not None:
            back = self.desk.seal.open(
                sealed, queue=name_of(room.queue_id), now_s=self.desk.now_s()
            )
            return _address(back, return_hosts(pulse))
        if target:
            return safe_path(target)
        return pulse.options.target_url or "/"

    def endpoints(self) -> Iterator[Endpoint]:
        """The visitors' part of the table."""
        parts = (self, self.challenges, self.snapshots, self._streams, self._fairness, self._notify)
        return offered(*parts, group="visitor")


def seal_target(desk: Desk, room: Room, host: str, path: str) -> str:
    """Seal where a visitor wants to go; the host, if any, must be one of the room's own."""
    return desk.seal.close(
        Return(
            host=host,
            path=safe_path(path),
            queue=name_of(room.queue_id),
            exp=int(desk.now_s()) + desk.options.ticket_s,
        )
    )


def _address(back: Return, hosts: Sequence[str]) -> str:
    # A host may have been taken off the list since the link was sealed.
    return f"//{back.host}{back.path}" if back.host in hosts else back.path


def _require_here(standing: Standing) -> None:
    if isinstance(standing, Late):
        raise Problem(
            410,
            "TURN_MISSED",
            "the turn is over; it can be taken back for a while",
            recoverable_until=instant(standing.until_ms),
            status_word="missed",
        )
    if isinstance(standing, Gone):
        raise Problem(410, "PLACE_LOST", "there is no such place in line any more")
