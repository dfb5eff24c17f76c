"""Endpoints of operators for all else: invitations, keys, themes, webhooks, alarms, reports."""

import asyncio
import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence

import msgspec

from waystation.core import codec
from waystation.core.errors import InvalidInput, InvalidOption, Malformed, NotFound
from waystation.core.http.endpoints import endpoint
from waystation.core.http.exchange import NO_STORE, Answer, Request, answer, require_own_site, whole
from waystation.core.http.problems import Code, Problem
from waystation.core.operators.operators import AuditLog
from waystation.core.webhooks import delivery
from waystation.core.webhooks.dispatch import Hook, State
from waystation.waitingroom.http import admin_bodies as bodies
from waystation.waitingroom.http.admin_bodies import (
    MOST_BODY,
    ROOT,
    AdminCall,
    AdminContext,
    AdminRoutes,
    room_endpoint,
)
from waystation.waitingroom.http.bodies import rfc3339
from waystation.waitingroom.http.context import ThemeStore, Tokens
from waystation.waitingroom.http.options import RoomCode
from waystation.waitingroom.http.waiting_page import PageContext, values
from waystation.waitingroom.http.webhooks import WebhookDispatcher, Webhooks
from waystation.waitingroom.operating.alarms import AlarmOptions, Alarms, limits_of, ringing_in
from waystation.waitingroom.operating.codes import Codes
from waystation.waitingroom.operating.history import (
    MOST_HOURS,
    MOST_MINUTES,
    History,
    Hour,
    last_hours,
)
from waystation.waitingroom.pages import words as dictionary
from waystation.waitingroom.pages.render import fill
from waystation.waitingroom.pages.theme import Theme
from waystation.waitingroom.room import Room
from waystation.waitingroom.signing import LEEWAY_S, EnqueueTicket, KeyFile, Keyring, Kind
from waystation.waitingroom.state import RoomState
from waystation.waitingroom.visitor import Lane, network_of, new_id

_ENDS = re.compile(r"[A-Za-z0-9_-]{16}\.([0-9a-f]{1,10})")
"""The id of an invitation of ours, and the second after which it no longer counts."""


class InvitationAdmin(AdminRoutes):
    """Who may join, and in which lane."""

    def __init__(self, context: AdminContext, tokens: Tokens) -> None:
        super().__init__(context)
        self._tokens = tokens

    @room_endpoint("POST /invites", "admin", status=201, most=MOST_BODY)
    async def invite(self, call: AdminCall, asked: bodies.NewInvites) -> bodies.Invites:
        """Sign invitations, one place in line for each key."""
        if not 1 <= len(asked.keys) <= bodies.MOST_INVITES or not all(asked.keys):
            raise InvalidOption(
                f"keys must be 1 to {bodies.MOST_INVITES} names, none of them empty"
            )
        if any(len(key) > bodies.LONGEST_KEY for key in asked.keys):
            raise InvalidOption(f"a key may have {bodies.LONGEST_KEY} characters")
        expires = self._expires_s(asked.minutes, least=1)
        network = network_of(asked.address) if asked.address else ""
        state = await call.room.state()
        signed = [
            self._signed(call.room, state, key, asked.lane, expires, network) for key in asked.keys
        ]
        after = {"invites": len(signed), "lane": asked.lane, "expires_s": expires}
        await call.note("invite", after=after)
        return bodies.Invites(invites=signed)

    @room_endpoint("DELETE /invites/{jti}", "admin")
    async def take_back(self, call: AdminCall) -> None:
        """Revoke an invitation; a place that it gave is kept."""
        jti = call.request.slots["jti"][:64]
        await call.room.revoke(jti, "invitation_revoked", ttl=self._left_s(jti))
        await call.note("take-back-invite", before=jti)

    @room_endpoint("POST /codes", "admin", status=201)
    async def make_codes(self, call: AdminCall, asked: bodies.NewCodes) -> bodies.MadeCodes:
        """Create access codes; they are shown once."""
        made = await Codes(call.room).make(
            asked.batch,
            asked.count,
            bits=self._tokens.bits,
            lane=Lane(asked.lane),
            uses=asked.uses,
            expires_s=self._expires_s(asked.minutes),
        )
        after = {"batch": asked.batch, "count": asked.count, "lane": asked.lane, "uses": asked.uses}
        await call.note("make-codes", after=after)
        return bodies.MadeCodes(batch=asked.batch, codes=made)

    @room_endpoint("GET /codes", "viewer")
    async def batches(self, call: AdminCall) -> bodies.Batches:
        """List the batches of codes and their use."""
        listed = [
            bodies.CodeBatch(
                batch=each.batch,
                lane=int(each.lane),
                uses=each.uses,
                codes=each.codes,
                used=each.used,
                expires_at=rfc3339(each.expires_s * 1000) if each.expires_s else None,
            )
            for each in await Codes(call.room).batches()
        ]
        return bodies.Batches(batches=listed)

    @room_endpoint("DELETE /codes/{batch}", "admin")
    async def revoke_codes(self, call: AdminCall) -> None:
        """Revoke a batch of codes."""
        batch = call.request.slots["batch"]
        if not await Codes(call.room).revoke(batch):
            raise NotFound("there is no batch of that name")
        await call.note("revoke-codes", before=batch)

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


class SigningKeyAdmin(AdminRoutes):
    """Changes of keys; whoever waits or is inside does not notice."""

    def __init__(self, context: AdminContext, tokens: Tokens, file: KeyFile | None) -> None:
        super().__init__(context)
        self._tokens = tokens
        self._file = file

    @endpoint(f"GET {KEYS}", gives={200: bodies.SigningKeys}, scope="admin")
    async def every(self, request: Request) -> Answer:
        """List the signing keys: current, next and previous."""
        await self.context.operators.require(request, "admin")
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
        who = await self.context.operators.require(request, "admin")
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
        await self.context.operators.note(who, action, "", before=None, after=after)
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


class ThemeAdmin(AdminRoutes):
    """The colour, the logo and the words of a site."""

    def __init__(self, context: AdminContext, themes: ThemeStore) -> None:
        super().__init__(context)
        self._themes = themes

    @room_endpoint("GET /page", "viewer")
    async def read(self, call: AdminCall) -> Theme:
        """The theme of the waiting page."""
        return await self._themes.looks(call.room, await call.room.state())

    @room_endpoint("PUT /page", "admin", most=MOST_LOOKS)
    async def put(self, call: AdminCall, asked: Theme) -> Theme:
        """Change the theme of the waiting page."""
        await call.change("page", lambda: self._themes.put(call.room, asked))
        return asked

    @room_endpoint("DELETE /page", "admin")
    async def clear(self, call: AdminCall) -> None:
        """Reset the theme of the waiting page."""
        await call.change("page", lambda: self._themes.clear(call.room))

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
        await self.context.operators.require(request, "viewer", request.slots["id"])
        room = await self.context.rooms.find(request.slots["id"])
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


class WebhookAdmin(AdminRoutes):
    """The webhooks of a room."""

    def __init__(self, context: AdminContext, dispatcher: WebhookDispatcher) -> None:
        super().__init__(context)
        self._dispatcher = dispatcher

    @room_endpoint("GET /webhooks", "viewer")
    async def every(self, call: AdminCall) -> bodies.Webhooks:
        """List webhooks and the state of their deliveries."""
        listed = [_listed(*each) for each in await Webhooks(call.room).every()]
        return bodies.Webhooks(webhooks=listed)

    @room_endpoint("POST /webhooks", "admin", status=201)
    async def add(self, call: AdminCall, asked: bodies.NewWebhook) -> bodies.MadeWebhook:
        """Add a webhook; its secret is shown once."""
        url = delivery.checked(asked.url, self._dispatcher.sender.private)
        hook = await Webhooks(call.room).add(url, asked.events)
        await call.note(
            "add-webhook", after={"id": hook.id, "url": hook.url, "events": hook.events}
        )
        return bodies.MadeWebhook(id=hook.id, url=hook.url, events=hook.events, secret=hook.secret)

    @room_endpoint("DELETE /webhooks/{hook}", "admin")
    async def remove(self, call: AdminCall) -> None:
        """Remove a webhook."""
        await Webhooks(call.room).remove(call.request.slots["hook"])
        await call.note("remove-webhook", before=call.request.slots["hook"])

    @room_endpoint("POST /webhooks/{hook}/test", "admin")
    async def try_out(self, call: AdminCall) -> bodies.Tried:
        """Send a test event to a webhook."""
        hook, _ = await Webhooks(call.room).get(call.request.slots["hook"])
        wrong = await self._dispatcher.try_out(call.room, hook)
        return bodies.Tried(taken=not wrong, error=wrong)


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


class AlarmAdmin(AdminRoutes):
    """The alarms of a room."""

    @room_endpoint("GET /alarms", "viewer")
    async def look(self, call: AdminCall) -> bodies.Alarms:
        """The limits of a room, and the alarms that are on."""
        state = await call.room.state()
        return bodies.Alarms(limits=limits_of(state), alarms=ringing_in(state))

    @room_endpoint("PUT /alarms", "operator")
    async def put(self, call: AdminCall, asked: AlarmOptions) -> bodies.Alarms:
        """Change the limits beyond which the room raises an alarm."""
        alarms = Alarms(call.room)

        async def limit() -> None:
            await alarms.set(asked)
            await alarms.keep()

        after = await call.change("alarms", limit)
        return bodies.Alarms(limits=limits_of(after), alarms=ringing_in(after))


MOST_ENTRIES = 200
MOST_EXPORTED = 10_000
_HOURS = {"hours": {"type": "integer", "minimum": 1, "maximum": MOST_HOURS}}
_MINUTES = {"minutes": {"type": "integer", "minimum": 1, "maximum": MOST_MINUTES}}
_AUDIT = ("at", "who", "role", "action", "queue", "before", "after")
CSV = b"text/csv; charset=utf-8; header=present"
_RUNS = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a cell begins with that a spreadsheet takes for a formula."""


class Reports(AdminRoutes):
    """The last day of a room, and what operators did."""

    @room_endpoint("GET /analytics", "viewer", query=_HOURS)
    async def analytics(self, call: AdminCall) -> bodies.Analytics:
        """Arrivals, departures and waits by the hour."""
        found = await last_hours(call.room, _asked(call.request, "hours", MOST_HOURS))
        return bodies.Analytics(queue=call.room.name, hours=found)

    @room_endpoint("GET /history", "viewer", query=_MINUTES)
    async def history(self, call: AdminCall) -> bodies.MinuteHistory:
        """The line, arrivals, admissions, no-shows and estimates by the minute, for a day."""
        found = await History(call.room).last(_asked(call.request, "minutes", MOST_MINUTES))
        return bodies.MinuteHistory(queue=call.room.name, minutes=found)

    @room_endpoint("GET /export", "viewer", query=_HOURS, gives={200: None})
    async def export(self, call: AdminCall) -> Answer:
        """The same as a CSV file."""
        found = await last_hours(call.room, _asked(call.request, "hours", MOST_HOURS))
        rows = [list(msgspec.structs.astuple(each)) for each in found]
        return table(f"{call.room.name}-hours", Hour.__struct_fields__, rows)

    @endpoint(
        "GET /api/v1/admin/audit",
        gives={200: AuditLog},
        query={"queue": {"type": "string"}},
        fails=(400, 401, 403, 429, 503),
        scope="admin",
    )
    async def audit(self, request: Request) -> Answer:
        """The audit log of one room or of all, the latest first; two hundred at most."""
        await self.context.operators.require(request, "admin")
        queue = request.query.get("queue")
        return answer(await self.context.operators.audit(MOST_ENTRIES, queue))

    @endpoint(
        "GET /api/v1/admin/audit/export",
        gives={200: None},
        fails=(400, 401, 403, 429, 503),
        scope="admin",
    )
    async def export_audit(self, request: Request) -> Answer:
        """The same as a CSV file, as far back as it is kept."""
        await self.context.operators.require(request, "admin")
        log = await self.context.operators.audit(MOST_EXPORTED)
        rows = [
            [rfc3339(int(each["at"])), *(each[name] for name in _AUDIT[1:])] for each in log.entries
        ]
        return table("audit", _AUDIT, rows)


def _asked(request: Request, name: str, most: int) -> int:
    try:
        return whole(request, name, most, least=1, most=most)
    except InvalidInput as error:
        raise InvalidOption(str(error)) from None


def table(name: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Answer:
    """A CSV file to be saved under this name, safe to open in a spreadsheet."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(heads)
    writer.writerows([_harmless(cell) for cell in row] for row in rows)
    saved = (b"content-disposition", f'attachment; filename="{name}.csv"'.encode())
    return Answer(200, text.getvalue().encode(), CSV, [NO_STORE, saved])


def _harmless(cell: object) -> object:
    if cell is None or isinstance(cell, int | float):
        return cell
    text = str(cell).replace("\r", " ").replace("\n", " ")
    return f"'{text}" if text.startswith(_RUNS) or str(cell).startswith(_RUNS) else text
