"""Endpoints of operators for all else: invitations, keys, themes, webhooks, alarms, reports."""

import asyncio
import re
from collections.abc import Callable

import msgspec

from waystation.core import codec
from waystation.core.errors import InvalidInput, InvalidOption, Malformed, NotFound
from waystation.core.http.endpoints import endpoint
from waystation.core.http.exchange import NO_STORE, Answer, Request, answer, require_own_site, whole
from waystation.core.http.problems import Code, Problem
from waystation.core.http.tables import table
from waystation.core.operators.operators import AuditLog
from waystation.core.webhooks import delivery
from waystation.core.webhooks.dispatch import Hook, State
from waystation.waitingroom.http import admin_bodies as bodies
from waystation.waitingroom.http.admin_bodies import MOST_BODY, ROOT, AdminContext
from waystation.waitingroom.http.bodies import rfc3339
from waystation.waitingroom.http.context import ThemeStore, Tokens
from waystation.waitingroom.http.options import RoomCode
from waystation.waitingroom.http.waiting_page import PageContext, values
from waystation.waitingroom.http.webhooks import WebhookDispatcher, Webhooks
from waystation.waitingroom.operating import statistics as hours
from waystation.waitingroom.operating.alarms import AlarmOptions, Alarms, limits_of, ringing_in
from waystation.waitingroom.operating.codes import Codes
from waystation.waitingroom.operating.history import MOST_MINUTES, History
from waystation.waitingroom.operating.statistics import MOST_HOURS, Hour
from waystation.waitingroom.pages import words as dictionary
from waystation.waitingroom.pages.render import fill
from waystation.waitingroom.pages.theme import Theme
from waystation.waitingroom.room import Room
from waystation.waitingroom.signing import LEEWAY_S, EnqueueTicket, KeyFile, Keyring, Kind
from waystation.waitingroom.state import RoomState
from waystation.waitingroom.visitor import Lane, network_of, new_id

_ENDS = re.compile(r"[A-Za-z0-9_-]{16}\.([0-9a-f]{1,10})")
"""The id of an invitation of ours, and the second after which it no longer counts."""


class InvitationAdmin:
    """Who may join, and in which lane."""

    def __init__(self, context: AdminContext, tokens: Tokens) -> None:
        self._context = context
        self._tokens = tokens

    @endpoint(
        f"POST {ROOT}/{{id}}/invites",
        takes=bodies.NewInvites,
        gives={201: bodies.Invites},
        scope="admin",
    )
    async def invite(self, request: Request) -> Answer:
        """Sign invitations, one place in line for each key."""
        room, who = await self._context.allowed(request, "admin")
        asked = await request.read(bodies.NewInvites, MOST_BODY)
        if not 1 <= len(asked.keys) <= bodies.MOST_INVITES or not all(asked.keys):
            raise InvalidOption(
                f"keys must be 1 to {bodies.MOST_INVITES} names, none of them empty"
            )
        if any(len(key) > bodies.LONGEST_KEY for key in asked.keys):
            raise InvalidOption(f"a key may have {bodies.LONGEST_KEY} characters")
        expires = self._expires_s(asked.minutes, least=1)
        network = network_of(asked.address) if asked.address else ""
        state = await room.state()
        signed = [
            self._signed(room, state, key, asked.lane, expires, network) for key in asked.keys
        ]
        after = {"invites": len(signed), "lane": asked.lane, "expires_s": expires}
        await self._context.note(who, "invite", room, before=None, after=after)
        return answer(bodies.Invites(invites=signed), 201)

    @endpoint(f"DELETE {ROOT}/{{id}}/invites/{{jti}}", gives={204: None}, scope="admin")
    async def take_back(self, request: Request) -> Answer:
        """Revoke an invitation; a place that it gave is kept."""
        room, who = await self._context.allowed(request, "admin")
        jti = request.slots["jti"][:64]
        await room.revoke(jti, "invitation_revoked", ttl=self._left_s(jti))
        await self._context.note(who, "take-back-invite", room, before=jti, after=None)
        return Answer(204)

    @endpoint(
        f"POST {ROOT}/{{id}}/codes",
        takes=bodies.NewCodes,
        gives={201: bodies.MadeCodes},
        scope="admin",
    )
    async def make_codes(self, request: Request) -> Answer:
        """Create access codes; they are shown once."""
        room, who = await self._context.allowed(request, "admin")
        asked = await request.read(bodies.NewCodes)
        expires = self._expires_s(asked.minutes)
        made = await Codes(room).make(
            asked.batch,
            asked.count,
            bits=self._tokens.bits,
            lane=Lane(asked.lane),
            uses=asked.uses,
            expires_s=expires,
        )
        after = {"batch": asked.batch, "count": asked.count, "lane": asked.lane, "uses": asked.uses}
        await self._context.note(who, "make-codes", room, before=None, after=after)
        return answer(bodies.MadeCodes(batch=asked.batch, codes=made), 201)

    @endpoint(f"GET {ROOT}/{{id}}/codes", gives={200: bodies.Batches}, scope="viewer")
    async def batches(self, request: Request) -> Answer:
        """List the batches of codes and their use."""
        room, _ = await self._context.allowed(request, "viewer")
        listed = [
            bodies.CodeBatch(
                batch=each.batch,
                lane=int(each.lane),
                uses=each.uses,
                codes=each.codes,
                used=each.used,
                expires_at=rfc3339(each.expires_s * 1000) if each.expires_s else None,
            )
            for each in await Codes(room).batches()
        ]
        return answer(bodies.Batches(batches=listed))

    @endpoint(f"DELETE {ROOT}/{{id}}/codes/{{batch}}", gives={204: None}, scope="admin")
    async def revoke_codes(self, request: Request) -> Answer:
        """Revoke a batch of codes."""
        room, who = await self._context.allowed(request, "admin")
        batch = request.slots["batch"]
        if not await Codes(room).revoke(batch):
            raise NotFound("there is no batch of that name")
        await self._context.note(who, "revoke-codes", room, before=batch, after=None)
        return Answer(204)

    def _expires_s(self, minutes: float, *, least: float = 0) -> int:
        most = bodies.LONGEST_DAYS * 1440
        if not least <= minutes <= most:
            raise InvalidOption(f"minutes must be {least} to {most}, got {minutes}")
        return round(self._tokens.now_s() + minutes * 60) if minutes else 0

    def _left_s(self, jti: str) -> int:
        """How long an invitation may still count: what we signed says so in its id."""
        most = bodies.LONGEST_DAYS * 86_400
        end = _ENDS.fullmatch(jti)
        if end is None:
            return most
        return min(most, max(1, int(end[1], 16) - int(self._tokens.now_s()) + LEEWAY_S))

    def _signed(
        self, room: Room, state: RoomState, key: str, lane: int, expires: int, network: str
    ) -> bodies.Invite:
        name, jti = room.name, f"{new_id(self._tokens.bits)}.{expires:x}"
        ticket = self._tokens.keyring.sign(
            EnqueueTicket(
                iss=self._tokens.issuer,
                aud=name,
                iat=int(self._tokens.now_s()),
                exp=expires,
                jti=jti,
                epoch=state.epoch,
                key=key,
                lane=Lane(lane),
                ip=network,
            )
        )
        return bodies.Invite(
            key=key,
            jti=jti,
            ticket=ticket,
            url=f"/wait/{name}?ticket={ticket}",
            expires_at=rfc3339(expires * 1000),
        )


KEYS = "/api/v1/admin/keys"
_NAMES = {"invitations": Kind.ENQUEUE, "tickets": Kind.QUEUE, "sessions": Kind.SESSION}


class SigningKeyAdmin:
    """Changes of keys; whoever waits or is inside does not notice."""

    def __init__(self, context: AdminContext, tokens: Tokens, file: KeyFile | None) -> None:
        self._context = context
        self._tokens = tokens
        self._file = file

    @endpoint(f"GET {KEYS}", gives={200: bodies.SigningKeys}, scope="admin")
    async def every(self, request: Request) -> Answer:
        """List the signing keys: current, next and previous."""
        await self._context.operators.require(request, "admin")
        return answer(await self._listed())

    @endpoint(
        f"POST {KEYS}/rotate",
        takes=bodies.KeyChange,
        gives={200: bodies.SigningKeys},
        scope="admin",
    )
    async def rotate(self, request: Request) -> Answer:
        """Rotate a signing key: use the next one, and announce another."""
        return await self._change(request, "rotate-key", KeyFile.rotate)

    @endpoint(
        f"POST {KEYS}/retire",
        takes=bodies.KeyChange,
        gives={200: bodies.SigningKeys},
        scope="admin",
    )
    async def retire(self, request: Request) -> Answer:
        """Retire the previous signing keys."""
        return await self._change(request, "retire-key", KeyFile.retire)

    async def _change(self, request: Request, action: str, step: Callable[..., Keyring]) -> Answer:
        who = await self._context.operators.require(request, "admin")
        asked = await request.read(bodies.KeyChange)
        if self._file is None:
            raise Problem(
                409, RoomCode.KEYS_ELSEWHERE, "the keys come from a setting; change them there"
            )
        kind = _NAMES[asked.kind]
        now_s = int(self._tokens.now_s())
        changed = await asyncio.to_thread(
            step, self._file, kind, now_s=now_s, emergency=asked.emergency
        )
        self._tokens.adopt(changed)
        after = {"kind": asked.kind, "emergency": asked.emergency}
        await self._context.operators.note(who, action, "", before=None, after=after)
        return answer(await self._listed())

    async def _listed(self) -> bodies.SigningKeys:
        when = {} if self._file is None else await asyncio.to_thread(self._file.rotated_at)
        listed = list[bodies.KeyIds]()
        for name, kind in _NAMES.items():
            next, current, *before = self._tokens.keyring.ids(kind)
            rotated = rfc3339(when[kind] * 1000) if when.get(kind) else None
            previous = before[0] if before else None
            listed.append(
                bodies.KeyIds(
                    kind=name, next=next, current=current, previous=previous, rotated_at=rotated
                )
            )
        return bodies.SigningKeys(keys=listed)


MOST_LOOKS = 524_288
STATUSES = (
    "new", "invite", "missed", "left", "gone", "closed", "sold_out", "full", "crowded", "cookies",
    "maintenance", "rejected",
)  # fmt: skip
"""What can be shown without anybody in line."""


class ThemeAdmin:
    """The colour, the logo and the words of a site."""

    def __init__(self, context: AdminContext, themes: ThemeStore) -> None:
        self._context = context
        self._themes = themes

    @endpoint(f"GET {ROOT}/{{id}}/page", gives={200: Theme}, scope="viewer")
    async def read(self, request: Request) -> Answer:
        """The theme of the waiting page."""
        room, _ = await self._context.allowed(request, "viewer")
        return answer(await self._themes.looks(room, await room.state()))

    @endpoint(f"PUT {ROOT}/{{id}}/page", takes=Theme, gives={200: Theme}, scope="admin")
    async def put(self, request: Request) -> Answer:
        """Change the theme of the waiting page."""
        room, who = await self._context.allowed(request, "admin")
        looks = await request.read(Theme, MOST_LOOKS)
        before = await room.state()
        await self._themes.put(room, looks)
        await self._context.note_change(who, "page", room, before, await room.state())
        return answer(looks)

    @endpoint(f"DELETE {ROOT}/{{id}}/page", gives={204: None}, scope="admin")
    async def clear(self, request: Request) -> Answer:
        """Reset the theme of the waiting page."""
        room, who = await self._context.allowed(request, "admin")
        before = await room.state()
        await self._themes.clear(room)
        await self._context.note_change(who, "page", room, before, await room.state())
        return Answer(204)

    @endpoint(
        f"POST {ROOT}/{{id}}/page/preview",
        takes=Theme,
        gives={200: None},
        query={
            "status": {"type": "string", "enum": list(STATUSES)},
            "lang": {"type": "string", "enum": sorted(dictionary.languages())},
        },
        scope="viewer",
    )
    async def preview(self, request: Request) -> Answer:
        """Preview the page as HTML; nothing is stored."""
        room, _ = await self._context.allowed(request, "viewer")
        looks = await _tried(request)
        status = request.query.get("status", "new")
        lang = request.query.get("lang", looks.language or dictionary.FALLBACK)
        if status not in STATUSES or lang not in dictionary.languages():
            raise InvalidOption(f"status must be one of {', '.join(STATUSES)}, and lang be known")
        shown = PageContext(
            room=room, state=await room.state(), looks=looks, lang=lang, sealed="", status=status
        )
        page = fill("waiting.html", values(shown))
        # It is to be looked at: nothing of it runs or leads anywhere.
        policy = (
            b"default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; "
            b"frame-ancestors 'self'; sandbox"
        )
        headers = [NO_STORE, (b"content-security-policy", policy)]
        return Answer(200, page, b"text/html; charset=utf-8", headers)


async def _tried(request: Request) -> Theme:
    """The theme to try out, as JSON or as the form of the operator's page sends it to a frame."""
    if not request.header("content-type").startswith("application/x-www-form-urlencoded"):
        return await request.read(Theme, MOST_LOOKS)
    require_own_site(request)
    try:
        return codec.decode((await request.form(2 * MOST_LOOKS)).get("theme", "{}"), Theme)
    except Malformed as error:
        raise Problem(400, Code.MALFORMED, str(error)) from None


class WebhookAdmin:
    """The webhooks of a room."""

    def __init__(self, context: AdminContext, dispatcher: WebhookDispatcher) -> None:
        self._context = context
        self._dispatcher = dispatcher

    @endpoint(f"GET {ROOT}/{{id}}/webhooks", gives={200: bodies.Webhooks}, scope="viewer")
    async def every(self, request: Request) -> Answer:
        """List webhooks and the state of their deliveries."""
        room, _ = await self._context.allowed(request, "viewer")
        listed = [_listed(*each) for each in await Webhooks(room).every()]
        return answer(bodies.Webhooks(webhooks=listed))

    @endpoint(
        f"POST {ROOT}/{{id}}/webhooks",
        takes=bodies.NewWebhook,
        gives={201: bodies.MadeWebhook},
        scope="admin",
    )
    async def add(self, request: Request) -> Answer:
        """Add a webhook; its secret is shown once."""
        room, who = await self._context.allowed(request, "admin")
        asked = await request.read(bodies.NewWebhook)
        url = delivery.checked(asked.url, self._dispatcher.sender.private)
        hook = await Webhooks(room).add(url, asked.events)
        after = {"id": hook.id, "url": hook.url, "events": hook.events}
        await self._context.note(who, "add-webhook", room, before=None, after=after)
        made = bodies.MadeWebhook(id=hook.id, url=hook.url, events=hook.events, secret=hook.secret)
        return answer(made, 201)

    @endpoint(f"DELETE {ROOT}/{{id}}/webhooks/{{hook}}", gives={204: None}, scope="admin")
    async def remove(self, request: Request) -> Answer:
        """Remove a webhook."""
        room, who = await self._context.allowed(request, "admin")
        await Webhooks(room).remove(request.slots["hook"])
        await self._context.note(
            who, "remove-webhook", room, before=request.slots["hook"], after=None
        )
        return Answer(204)

    @endpoint(
        f"POST {ROOT}/{{id}}/webhooks/{{hook}}/test", gives={200: bodies.Tried}, scope="admin"
    )
    async def try_out(self, request: Request) -> Answer:
        """Send a test event to a webhook."""
        room, _ = await self._context.allowed(request, "admin")
        hook, _ = await Webhooks(room).get(request.slots["hook"])
        wrong = await self._dispatcher.try_out(room, hook)
        return answer(bodies.Tried(taken=not wrong, error=wrong))


def _listed(hook: Hook, state: State) -> bodies.Webhook:
    return bodies.Webhook(
        id=hook.id,
        url=hook.url,
        events=hook.events,
        delivered=state.delivered,
        failures=state.failures,
        last_error=state.last_error,
        next_try_at=rfc3339(state.next_ms) if state.failures else None,
    )


class AlarmAdmin:
    """The alarms of a room."""

    def __init__(self, context: AdminContext) -> None:
        self._context = context

    @endpoint(f"GET {ROOT}/{{id}}/alarms", gives={200: bodies.Alarms}, scope="viewer")
    async def look(self, request: Request) -> Answer:
        """The limits of a room, and the alarms that are on."""
        room, _ = await self._context.allowed(request, "viewer")
        state = await room.state()
        return answer(bodies.Alarms(limits=limits_of(state), alarms=ringing_in(state)))

    @endpoint(
        f"PUT {ROOT}/{{id}}/alarms",
        takes=AlarmOptions,
        gives={200: bodies.Alarms},
        scope="operator",
    )
    async def put(self, request: Request) -> Answer:
        """Change the limits beyond which the room raises an alarm."""
        room, who = await self._context.allowed(request, "operator")
        asked = await request.read(AlarmOptions)
        before = await room.state()
        alarms = Alarms(room)
        await alarms.set(asked)
        await alarms.keep()
        after = await room.state()
        await self._context.note_change(who, "alarms", room, before, after)
        return answer(bodies.Alarms(limits=limits_of(after), alarms=ringing_in(after)))


MOST_ENTRIES = 200
MOST_EXPORTED = 10_000
_HOURS = {"hours": {"type": "integer", "minimum": 1, "maximum": MOST_HOURS}}
_MINUTES = {"minutes": {"type": "integer", "minimum": 1, "maximum": MOST_MINUTES}}
_AUDIT = ("at", "who", "role", "action", "queue", "before", "after")


class Reports:
    """The last day of a room, and what operators did."""

    def __init__(self, context: AdminContext) -> None:
        self._context = context

    @endpoint(
        f"GET {ROOT}/{{id}}/analytics", gives={200: bodies.Analytics}, query=_HOURS, scope="viewer"
    )
    async def analytics(self, request: Request) -> Answer:
        """Arrivals, departures and waits by the hour."""
        room, _ = await self._context.allowed(request, "viewer")
        found = await hours.last(room, _asked(request, "hours", MOST_HOURS))
        return answer(bodies.Analytics(queue=room.name, hours=found))

    @endpoint(
        f"GET {ROOT}/{{id}}/history",
        gives={200: bodies.MinuteHistory},
        query=_MINUTES,
        scope="viewer",
    )
    async def history(self, request: Request) -> Answer:
        """The line, arrivals, admissions, no-shows and estimates by the minute, for a day."""
        room, _ = await self._context.allowed(request, "viewer")
        minutes = _asked(request, "minutes", MOST_MINUTES)
        return answer(
            bodies.MinuteHistory(queue=room.name, minutes=await History(room).last(minutes))
        )

    @endpoint(f"GET {ROOT}/{{id}}/export", gives={200: None}, query=_HOURS, scope="viewer")
    async def export(self, request: Request) -> Answer:
        """The same as a CSV file."""
        room, _ = await self._context.allowed(request, "viewer")
        found = await hours.last(room, _asked(request, "hours", MOST_HOURS))
        rows = [list(msgspec.structs.astuple(each)) for each in found]
        return table(f"{room.name}-hours", Hour.__struct_fields__, rows)

    @endpoint(
        "GET /api/v1/admin/audit",
        gives={200: AuditLog},
        query={"queue": {"type": "string"}},
        fails=(400, 401, 403, 429, 503),
        scope="admin",
    )
    async def audit(self, request: Request) -> Answer:
        """The audit log of one room or of all, the latest first; two hundred at most."""
        await self._context.operators.require(request, "admin")
        queue = request.query.get("queue")
        return answer(await self._context.operators.audit(MOST_ENTRIES, queue))

    @endpoint(
        "GET /api/v1/admin/audit/export",
        gives={200: None},
        fails=(400, 401, 403, 429, 503),
        scope="admin",
    )
    async def export_audit(self, request: Request) -> Answer:
        """The same as a CSV file, as far back as it is kept."""
        await self._context.operators.require(request, "admin")
        log = await self._context.operators.audit(MOST_EXPORTED)
        rows = [
            [rfc3339(int(each["at"])), *(each[name] for name in _AUDIT[1:])] for each in log.entries
        ]
        return table("audit", _AUDIT, rows)


def _asked(request: Request, name: str, most: int) -> int:
    try:
        return whole(request, name, most, least=1, most=most)
    except InvalidInput as error:
        raise InvalidOption(str(error)) from None
