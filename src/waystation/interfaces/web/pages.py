"""The waiting page, with and without JavaScript, and the operator's page."""

import secrets
from collections.abc import Iterator

from waystation.interfaces.api import bodies
from waystation.interfaces.api.desk import Desk, require_own_site
from waystation.interfaces.api.http.endpoints import Endpoint, endpoint, offered
from waystation.interfaces.api.http.exchange import NO_STORE, Answer, Request
from waystation.interfaces.api.http.problems import Problem
from waystation.interfaces.api.returns import return_hosts, split_target
from waystation.interfaces.api.rooms import name_of
from waystation.interfaces.api.visitors.line import Visitors, seal_target
from waystation.interfaces.api.visitors.telling import instant, serving_state, standing_body
from waystation.interfaces.web import words as dictionary
from waystation.interfaces.web.looks import Looks
from waystation.interfaces.web.render import facts, fill, source
from waystation.interfaces.web.waiting import REFRESH_S, Shown, values, with_return
from waystation.interfaces.web.wardrobe import Wardrobe
from waystation.queues.waitingroom.options import Status
from waystation.queues.waitingroom.pulse import Pulse
from waystation.queues.waitingroom.room import Begun, Forbidden, Room
from waystation.queues.waitingroom.visitor import Gone, Late

PAGE = b"text/html; charset=utf-8"


class Pages:
    """The endpoints that browsers open."""

    def __init__(
        self, desk: Desk, visitors: Visitors, wardrobe: Wardrobe, *, provider: str = ""
    ) -> None:
        self._desk = desk
        self._provider = provider
        self._visitors = visitors
        self._wardrobe = wardrobe

    @endpoint("GET /wait/{id}")
    async def wait(self, request: Request) -> Answer:
        """The waiting page."""
        room = await self._desk.room(request)
        shown = await self._look(request, room)
        cookies = list[tuple[bytes, bytes]]()
        if self._desk.visitor_key(request) is None:
            cookies.append(self._desk.new_visitor_key()[1])
        return self._page(shown, cookies)

    @endpoint("POST /wait/{id}/join")
    async def join(self, request: Request) -> Answer:
        """Join by form."""
        room, form = await self._form(request)
        sealed = form.get("r", "")
        asked = bodies.Enqueue(ticket=form.get("ticket", ""), code=form.get("code", ""))
        try:
            pulse = await self._desk.pulse(room)
            newcomer = await self._visitors.newcomer(request, room, pulse, asked)
            given = await self._visitors.join(request, room, pulse, newcomer)
        except Problem as problem:
            wrong = problem.code in ("CODE_INVALID", "INVALID_TOKEN", "WRONG_NETWORK")
            return self._back(room, form, more="&trouble=code" if wrong else "")
        cookies = [header for header in given.headers if header[0] == b"set-cookie"]
        if b'"status":"pass"' in given.body:
            return go(self._destination(await self._desk.pulse(room), room, sealed), *cookies)
        return self._back(room, form, *cookies)

    @endpoint("POST /wait/{id}/claim")
    async def claim(self, request: Request) -> Answer:
        """Come in by form."""
        room, form = await self._form(request)
        place = await self._desk.place(request, room)
        try:
            begun = await self._visitors.begin(request, room, place, "")
        except Problem as problem:
            if problem.status != 410:
                raise
            return self._back(room, form)
        if not isinstance(begun, Begun):
            return self._back(room, form)
        pulse = await self._desk.pulse(room)
        token = self._desk.session_token(room, place, pulse, host=request.host)
        cookie = self._visitors.session_cookie(room, pulse, token)
        return go(self._destination(pulse, room, form.get("r", "")), cookie)

    @endpoint("POST /wait/{id}/recover")
    async def recover(self, request: Request) -> Answer:
        """Take a missed turn back by form."""
        room, form = await self._form(request)
        place = await self._desk.place(request, room)
        await room.recover(place, self._desk.possession(request, "") or "-")
        return self._back(room, form)

    @endpoint("POST /wait/{id}/leave")
    async def leave(self, request: Request) -> Answer:
        """Leave by form."""
        room, form = await self._form(request)
        place = await self._desk.place(request, room)
        left = await room.leave(place, self._desk.possession(request, "") or "-")
        if isinstance(left, Forbidden):
            raise Problem(403, "NOT_YOURS", "the secret of this place is another")
        gone = self._visitors.forget_ticket(room)
        return self._back(room, form, gone, more="&left=1")

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
                "provider": self._provider,
                "no_provider": "" if self._provider else "hidden",
            },
        )
        return Answer(200, page, PAGE, page_headers(nonce, "'self'"))

    async def _form(self, request: Request) -> tuple[Room, dict[str, str]]:
        require_own_site(request)
        return await self._desk.room(request), await request.form()

    async def _look(self, request: Request, room: Room) -> Shown:
        pulse = await self._desk.pulse(room)
        looks = await self._wardrobe.looks(room, pulse)
        shown = Shown(
            room=room,
            pulse=pulse,
            looks=looks,
            lang=_language(request, looks),
            sealed=self._sealed(request, room, pulse),
            status="new",
            ticket=request.query.get("ticket", ""),
            trouble="code_wrong" if request.query.get("trouble") == "code" else "",
        )
        state = serving_state(pulse)
        try:
            place = await self._desk.place(request, room)
        except Problem as problem:
            if problem.status != 401:
                raise
            if request.query.get("left"):
                shown.status = "gone"
            elif state in ("closed", "draining") or pulse.options.status is Status.MAINTENANCE:
                shown.status = "closed"
            elif 0 < pulse.options.max_queue_size <= pulse.waiting + pulse.early:
                shown.status = "full"
            elif pulse.fields.get("invite_only") == "1" and not shown.ticket:
                shown.status = "invite"
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

    def _sealed(self, request: Request, room: Room, pulse: Pulse) -> str:
        sealed = request.query.get("r", "")
        if sealed:
            self._desk.seal.open(sealed, queue=name_of(room.queue_id), now_s=self._desk.now_s())
            return sealed
        target = request.query.get("target", "")
        host, path = split_target(target, return_hosts(pulse))
        return seal_target(self._desk, room, host, path) if target else ""

    def _destination(self, pulse: Pulse, room: Room, sealed: str) -> str:
        return self._visitors.redirect_url(pulse, "", sealed, room)

    def _back(
        self, room: Room, form: dict[str, str], *cookies: tuple[bytes, bytes], more: str = ""
    ) -> Answer:
        lang = dictionary.choose(form.get("lang", ""), "")
        where = f"/wait/{name_of(room.queue_id)}?lang={lang}{with_return(form.get('r', ''))}"
        return go(where + more, *cookies)

    def _page(self, shown: Shown, cookies: list[tuple[bytes, bytes]]) -> Answer:
        nonce = secrets.token_urlsafe(16)
        destination = self._destination(shown.pulse, shown.room, shown.sealed)
        page = fill("waiting.html", values(shown, nonce, destination))
        status = shown.pulse.fields.get("page_status", "200")
        code = int(status) if status in ("200", "202", "429", "503") else 200
        headers = [*page_headers(nonce, _origin(destination), workers="blob:"), *cookies]
        if code in (429, 503):
            headers.append((b"retry-after", str(REFRESH_S).encode()))
        return Answer(code, page, PAGE, headers)

    def endpoints(self) -> Iterator[Endpoint]:
        """The pages' part of the table."""
        return offered(self, group="pages")


def _language(request: Request, looks: Looks) -> str:
    asked, accepted = request.query.get("lang", ""), request.header("accept-language")
    return dictionary.choose(asked, accepted, looks.language or dictionary.FALLBACK)


def go(where: str, *headers: tuple[bytes, bytes]) -> Answer:
    """Send a browser elsewhere."""
    return Answer(303, headers=[(b"location", where.encode("latin-1")), NO_STORE, *headers])


def page_headers(
    nonce: str, leads_to: str, *, workers: str = "'none'"
) -> list[tuple[bytes, bytes]]:
    """What comes with every page: nothing runs, loads or frames it that is not ours."""
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; "
        f"img-src data:; connect-src 'self'; worker-src {workers}; "
        f"form-action 'self' {leads_to}; base-uri 'none'; frame-ancestors 'none'"
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
