"""The waiting page, with and without JavaScript, and the operator's page."""

import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from html import escape
from urllib.parse import quote

import msgspec

from waystation.interfaces.api import bodies
from waystation.interfaces.api.bodies import PlaceBody
from waystation.interfaces.api.desk import Desk, require_own_site
from waystation.interfaces.api.endpoints import Endpoint, endpoint, offered
from waystation.interfaces.api.exchange import NO_STORE, Answer, Request
from waystation.interfaces.api.problems import Problem
from waystation.interfaces.api.rooms import name_of
from waystation.interfaces.api.telling import instant, serving_state, standing_body
from waystation.interfaces.api.visitor import Visitors, seal_target
from waystation.interfaces.web import words as dictionary
from waystation.interfaces.web.render import Markup, facts, fill, source
from waystation.interfaces.web.words import Words, rounded, wait_text
from waystation.queues.waitingroom.options import Status
from waystation.queues.waitingroom.pulse import Pulse
from waystation.queues.waitingroom.room import Begun, Forbidden, Room
from waystation.queues.waitingroom.visitor import Gone, Late

REFRESH_S = 20
"""How often a page without JavaScript looks again."""
_PAGE = b"text/html; charset=utf-8"
_WAITS = ("waiting", "prequeued", "returned")


class Shown(msgspec.Struct, kw_only=True):
    """What one page is about."""

    room: Room
    pulse: Pulse
    lang: str
    sealed: str
    status: str
    body: PlaceBody | None = None
    recoverable_until: str | None = None


class Pages:
    """The endpoints that browsers open."""

    def __init__(self, desk: Desk, visitors: Visitors) -> None:
        self._desk = desk
        self._visitors = visitors

    @endpoint("GET /wait/{id}")
    async def wait(self, request: Request) -> Answer:
        """The waiting page."""
        room = await self._desk.room(request)
        shown = await self._look(request, room)
        cookies = list[tuple[bytes, bytes]]()
        if self._desk.visitor_key(request) is None:
            cookies.append(self._desk.new_visitor_key()[1])
        return self._page(request, shown, cookies)

    @endpoint("POST /wait/{id}/join")
    async def join(self, request: Request) -> Answer:
        """Join by form."""
        room, sealed = await self._form(request)
        newcomer = await self._visitors.newcomer(request, room, bodies.Enqueue())
        try:
            given = await self._visitors.join(request, room, newcomer)
        except Problem:
            return self._back(room, sealed)
        cookies = [header for header in given.headers if header[0] == b"set-cookie"]
        if b'"status":"pass"' in given.body:
            return _go(self._destination(await self._desk.pulse(room), room, sealed), *cookies)
        return self._back(room, sealed, *cookies)

    @endpoint("POST /wait/{id}/claim")
    async def claim(self, request: Request) -> Answer:
        """Come in by form."""
        room, sealed = await self._form(request)
        place, _ = await self._desk.place(request, room)
        try:
            begun = await self._visitors.begin(request, room, place, "")
        except Problem as problem:
            if problem.status != 410:
                raise
            return self._back(room, sealed)
        if not isinstance(begun, Begun):
            return self._back(room, sealed)
        pulse = await self._desk.pulse(room)
        token = self._desk.session_token(room, place, pulse, host=request.host)
        cookie = self._visitors.session_cookie(room, pulse, token)
        return _go(self._destination(pulse, room, sealed), cookie)

    @endpoint("POST /wait/{id}/recover")
    async def recover(self, request: Request) -> Answer:
        """Take a missed turn back by form."""
        room, sealed = await self._form(request)
        place, _ = await self._desk.place(request, room)
        await room.recover(place, self._desk.possession(request, "") or "-")
        return self._back(room, sealed)

    @endpoint("POST /wait/{id}/leave")
    async def leave(self, request: Request) -> Answer:
        """Leave by form."""
        room, sealed = await self._form(request)
        place, _ = await self._desk.place(request, room)
        left = await room.leave(place, self._desk.possession(request, "") or "-")
        if isinstance(left, Forbidden):
            raise Problem(403, "NOT_YOURS", "the secret of this place is another")
        gone = self._visitors.forget_ticket(room)
        return _go(f"/wait/{name_of(room.queue_id)}?left=1{_and(sealed)}", gone)

    @endpoint("GET /operate/{id}")
    async def operate(self, request: Request) -> Answer:
        """The operator's page; what it shows it asks for with the operator's key."""
        room = await self._desk.room(request)
        nonce = secrets.token_urlsafe(16)
        page = fill(
            "operator.html",
            {
                "nonce": nonce,
                "room": name_of(room.queue_id),
                "css": source("operator.css"),
                "script": source("operator.js"),
                "facts": facts({"queue": name_of(room.queue_id)}),
            },
        )
        return Answer(200, page, _PAGE, _headers(nonce, "'self'"))

    async def _form(self, request: Request) -> tuple[Room, str]:
        require_own_site(request)
        room = await self._desk.room(request)
        return room, (await request.form()).get("r", "")

    async def _look(self, request: Request, room: Room) -> Shown:
        pulse = await self._desk.pulse(room)
        lang = dictionary.choose(request.query.get("lang", ""), request.header("accept-language"))
        shown = Shown(
            room=room, pulse=pulse, lang=lang, sealed=self._sealed(request, room), status="new"
        )
        state = serving_state(pulse)
        try:
            place, _ = await self._desk.place(request, room)
        except Problem as problem:
            if problem.status != 401:
                raise
            if request.query.get("left"):
                shown.status = "gone"
            elif state in ("closed", "draining") or pulse.options.status is Status.MAINTENANCE:
                shown.status = "closed"
            elif 0 < pulse.options.max_queue_size <= pulse.waiting + pulse.early:
                shown.status = "full"
            return shown
        # Looking at the page is a sign of life, which is all that a page without script can give.
        standing = await room.heartbeat(place)
        if isinstance(standing, Gone):
            shown.status = "closed" if state == "closed" else "gone"
        elif isinstance(standing, Late):
            shown.status, shown.recoverable_until = "missed", instant(standing.until_ms)
        else:
            shown.body = standing_body(room, place, standing, pulse)
            shown.status = shown.body.status
        return shown

    def _sealed(self, request: Request, room: Room) -> str:
        sealed = request.query.get("r", "")
        if sealed:
            self._desk.seal.open(sealed, queue=name_of(room.queue_id), now_s=self._desk.now_s())
            return sealed
        target = request.query.get("target", "")
        return seal_target(self._desk, room, "", target) if target else ""

    def _destination(self, pulse: Pulse, room: Room, sealed: str) -> str:
        return self._visitors.redirect_url(pulse, "", sealed, room)

    def _back(self, room: Room, sealed: str, *cookies: tuple[bytes, bytes]) -> Answer:
        return _go(f"/wait/{name_of(room.queue_id)}?w=1{_and(sealed)}", *cookies)

    def _page(self, request: Request, shown: Shown, cookies: list[tuple[bytes, bytes]]) -> Answer:
        nonce = secrets.token_urlsafe(16)
        words = dictionary.languages()[shown.lang]
        destination = self._destination(shown.pulse, shown.room, shown.sealed)
        page = fill("waiting.html", self._values(shown, words, nonce, destination))
        status = shown.pulse.fields.get("page_status", "200")
        code = int(status) if status in ("200", "202", "429", "503") else 200
        headers = [*_headers(nonce, _origin(destination)), *cookies]
        if code in (429, 503):
            headers.append((b"retry-after", str(REFRESH_S).encode()))
        return Answer(code, page, _PAGE, headers)

    def _values(self, shown: Shown, words: Words, nonce: str, destination: str) -> dict[str, str]:
        name = name_of(shown.room.queue_id)
        body, status = shown.body, shown.status
        title = shown.pulse.options.name or words["title"]
        notice = body.message if body else None
        told = (
            (notice.text.get(shown.lang) or next(iter(notice.text.values()), "")) if notice else ""
        )
        waits = status in _WAITS
        paused = status in ("waiting", "returned") and serving_state(shown.pulse) == "paused"
        ahead = body.people_ahead if body else None
        wait = body.estimated_wait if body else None
        clock = _clock(body)
        return {
            "lang": shown.lang,
            "dir": words["_dir"],
            "nonce": nonce,
            "title": title,
            "room": title,
            "status": status,
            "refresh": _refresh(waits or status in ("admitted", "full")),
            "css": source("waiting.css"),
            "script": source("waiting.js"),
            "headline": words[f"head_{status}"],
            "text": words[f"text_{status}"],
            "notice": told,
            "notice_level": notice.level if notice and notice.level == "warning" else "info",
            "notice_hidden": _unless(bool(told)),
            "banner": words["paused"] if paused else "",
            "banner_hidden": _unless(paused),
            "numbers_hidden": _unless(waits or status == "admitted"),
            "ahead_hidden": _unless(ahead is not None),
            "ahead": f"{rounded(ahead or 0):,}",
            "wait_hidden": _unless(status in ("waiting", "returned")),
            "wait": wait_text(words, wait.p10 if wait else None, wait.p90 if wait else None),
            "clock_hidden": _unless(bool(clock)),
            "clock": clock,
            "word_clock": words[{"admitted": "left", "prequeued": "starts"}.get(status, "clock")],
            "action": f"/wait/{name}",
            "back": Markup(f'<input type="hidden" name="r" value="{escape(shown.sealed)}">'),
            "join_hidden": _unless(status in ("new", "gone")),
            "claim_hidden": _unless(status in ("admitted", "active")),
            "recover_hidden": _unless(status == "missed"),
            "leave_hidden": _unless(waits or status == "admitted"),
            "updated": words["updated"].replace("{time}", _now()),
            "why": words["why"],
            "ticket_hidden": _unless(body is not None),
            "ticket": body.position_id[-6:] if body else "",
            "fairness": _fairness(shown.pulse, name, words),
            "languages": _languages(name, shown),
            "facts": facts(
                {
                    "queue": name,
                    "lang": shown.lang,
                    "title": title,
                    "status": status,
                    "body": body,
                    "target": destination,
                    "words": {k: v for k, v in words.items() if not k.startswith("_")},
                }
            ),
            **{
                f"word_{word}": words[word]
                for word in (
                    "ahead", "wait", "progress", "join", "enter", "recover", "notify", "leave",
                    "ticket", "language",
                )
            },
        }  # fmt: skip

    def endpoints(self) -> Iterator[Endpoint]:
        """The pages' part of the table."""
        return offered(self, group="pages")


def _go(where: str, *headers: tuple[bytes, bytes]) -> Answer:
    return Answer(303, headers=[(b"location", where.encode("latin-1")), NO_STORE, *headers])


def _and(sealed: str) -> str:
    return f"&r={quote(sealed, safe='')}" if sealed else ""


def _headers(nonce: str, leads_to: str) -> list[tuple[bytes, bytes]]:
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; "
        f"connect-src 'self'; form-action 'self' {leads_to}; base-uri 'none'; "
        "frame-ancestors 'none'"
    )
    return [
        NO_STORE,
        (b"content-security-policy", policy.encode()),
        (b"x-frame-options", b"DENY"),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"same-origin"),
        (b"x-robots-tag", b"noindex"),
    ]


def _origin(destination: str) -> str:
    # A form that ends in a redirect may only lead where the policy says.
    if destination.startswith("//"):
        return destination[2:].partition("/")[0]
    if destination.startswith("https://"):
        return "https://" + destination[8:].partition("/")[0]
    return "'self'"


def _unless(shown: bool) -> Markup:
    return Markup("" if shown else "hidden")


def _refresh(needed: bool) -> Markup:
    return Markup(f'<meta http-equiv="refresh" content="{REFRESH_S}">' if needed else "")


def _clock(body: PlaceBody | None) -> str:
    if body is None:
        return ""
    if body.claim_deadline or body.starts_at:
        return f"{(body.claim_deadline or body.starts_at or '')[11:19]} UTC"
    return ""


def _now() -> str:
    return datetime.now(UTC).strftime("%H:%M:%S UTC")


def _fairness(pulse: Pulse, name: str, words: Words) -> Markup:
    if not pulse.fields.get("commitment"):
        return Markup("")
    where = f"/api/v1/queues/{name}/fairness"
    return Markup(f'<p class="small"><a href="{where}">{escape(words["fairness"])}</a></p>')


def _languages(name: str, shown: Shown) -> Markup:
    links = list[str]()
    for tag, words in dictionary.languages().items():
        here = ' aria-current="true"' if tag == shown.lang else ""
        where = f"/wait/{name}?lang={tag}{escape(_and(shown.sealed))}"
        links.append(f'<a href="{where}" lang="{tag}" hreflang="{tag}"{here}>{words["_name"]}</a>')
    return Markup("".join(links))
