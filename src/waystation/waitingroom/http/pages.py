"""Endpoints of pages: waiting, drawing, signing in, operating."""

import re
from collections.abc import Iterator, Mapping
from html import escape
from urllib.parse import parse_qsl, urlsplit

from waystation.core.errors import InvalidInput
from waystation.core.http.endpoints import Endpoint, endpoint, offered
from waystation.core.http.exchange import NO_STORE, Answer, Request, answer, require_own_site
from waystation.core.http.problems import Code, Problem
from waystation.core.operators.oidc import Provider, SignInRefused
from waystation.core.operators.oidc_settings import CALLBACK
from waystation.core.operators.operators import Operators
from waystation.core.operators.sign_in import ProviderSignIn
from waystation.core.telemetry.logs import get_logger
from waystation.waitingroom.http import bodies
from waystation.waitingroom.http.bodies import rfc3339
from waystation.waitingroom.http.context import (
    ServerContext,
    ThemeStore,
    onward,
    own,
    return_hosts,
    split_target,
)
from waystation.waitingroom.http.options import RoomCode
from waystation.waitingroom.http.status import ending, is_over, notice, serving_state, status_body
from waystation.waitingroom.http.visitors import Visitors
from waystation.waitingroom.http.waiting_page import (
    PAGE,
    REFRESH_S,
    PageContext,
    Shells,
    leads_to,
    logo,
    page_headers,
    page_status,
    style,
    title_of,
    values,
    with_return,
)
from waystation.waitingroom.operating.lottery import Lottery
from waystation.waitingroom.operating.schedule import next_draw
from waystation.waitingroom.options import Method, Status
from waystation.waitingroom.pages import words as dictionary
from waystation.waitingroom.pages.render import Markup, facts, fill, source
from waystation.waitingroom.pages.theme import Theme
from waystation.waitingroom.redis.store import STATE_S
from waystation.waitingroom.room import Room
from waystation.waitingroom.rooms import Rooms
from waystation.waitingroom.state import RoomState
from waystation.waitingroom.visitor import (
    Begun,
    Called,
    Forbidden,
    Gone,
    Inside,
    Late,
    Place,
    VisitorStatus,
)

_log = get_logger(__name__)

SAY_EVERY_S = 60.0
_TROUBLE: dict[str, str] = {
    Code.CODE_INVALID: "code",
    RoomCode.INVALID_TOKEN: "code",
    RoomCode.WRONG_NETWORK: "code",
    Code.RATE_LIMITED: "crowded",
    RoomCode.VISITOR_KEY_REQUIRED: "cookies",
    RoomCode.CHALLENGE_REQUIRED: "scripts",
}
"""The reason why joining failed, as the address of the page gives it."""
_SAID = {"code": "code_wrong", "scripts": "scripts"}
"""The words for those of them that are shown beside all else."""


class Pages:
    """The endpoints that browsers open."""

    def __init__(
        self,
        context: ServerContext,
        visitors: Visitors,
        themes: ThemeStore,
    ) -> None:
        self._rooms = context.rooms
        self._cookies = context.cookies
        self._tokens = context.tokens
        self._holders = context.holders
        self._clock = context.clock
        self._said: dict[str, float] = {}
        """When it may be said of a room again that its visitors cannot be sent back."""
        self._visitors = visitors
        self._themes = themes
        captcha = context.options.captcha
        self._shells = Shells(captcha.policy if captcha else "")

    @endpoint("GET /wait/{id}", gives={200: None, 304: None}, fails=(400, 404, 503))
    async def wait(self, request: Request) -> Answer:
        """The waiting page; with `plain=1` as it is for one visitor, without scripts."""
        room, state = await self._rooms.visit(request.slots["id"])
        query = request.query
        if "plain" in query:
            shown = await self._look(request, room, {**_referred(request), **query})
            return self._page(shown, self._new_key(request))
        if query:
            self._sealed(query, room, state)
        looks = await self._themes.looks(room, state)
        return self._shells.answer(request, room, state, looks, _language(request, query, looks))

    @endpoint("GET /wait/{id}/facts", gives={200: bodies.PageFacts}, fails=(400, 404, 503))
    async def facts(self, request: Request) -> Answer:
        """What the waiting page has to know about who looks at it; takes the page's own query."""
        room = await self._rooms.find(request.slots["id"])
        shown = await self._look(request, room, request.query)
        known = bodies.PageFacts(
            status=shown.status,
            place=shown.body,
            message=notice(shown.state),
            recoverable_until=shown.recoverable_until,
            rejoinable_until=shown.rejoinable_until,
            sealed=shown.sealed,
            target=self._destination(shown.state, room, shown.sealed),
            ticket=shown.ticket,
            trouble=shown.trouble,
            again_s=shown.again_s,
            ending=ending(shown.state) if is_over(shown.state) else None,
            now=rfc3339(self._clock.now_ms()),
        )
        return answer(known, 200, *self._new_key(request))

    def _new_key(self, request: Request) -> list[tuple[bytes, bytes]]:
        """The cookie that makes whoever has none yet a visitor."""
        if self._cookies.visitor_key(request) is not None:
            return []
        return [self._cookies.new_visitor_key()[1]]

    @endpoint("POST /wait/{id}/join")
    async def join(self, request: Request) -> Answer:
        """Join by form."""
        room, form = await self._form(request)
        state = await room.state(max_age=STATE_S)
        destination = self._destination(state, room, form.get("r", ""))
        asked = bodies.Enqueue(ticket=form.get("ticket", ""), code=form.get("code", ""))
        if self._cookies.visitor_key(request) is None and not request.query.get("again"):
            # The browser sends the form once more, with the cookie if it keeps any.
            where = f"/wait/{room.name}/join?again=1"
            return go(where, self._cookies.new_visitor_key()[1], status=307)
        try:
            newcomer = await self._visitors.newcomer(request, room, state, asked)
            joined, _, cookies = await self._visitors.join(request, room, state, newcomer)
        except Problem as problem:
            query = f"&trouble={_TROUBLE[problem.code]}" if problem.code in _TROUBLE else ""
            if query and "retry-after" in problem.headers:
                query += f"&after={problem.headers['retry-after']}"
            return self._back(room, form, more=query)
        if joined.status == "pass":
            place = await room.get_place(joined.position_id)
            onto = await onward(room, place, destination, host=request.host)
            return go(onto, *cookies)
        return self._back(room, form, *cookies)

    @endpoint("POST /wait/{id}/claim")
    async def claim(self, request: Request) -> Answer:
        """Begin the session by form."""
        room, form = await self._form(request)
        state = await room.state(max_age=STATE_S)
        # Before the turn is taken: a link that is spoiled must not cost it.
        destination = self._destination(state, room, form.get("r", ""))
        try:
            place = self._holders.place(request, room, state)
            begun = await self._visitors.begin(request, room, place, "")
        except Problem as problem:
            if problem.status not in (401, 410):
                raise
            return self._back(room, form)
        if not isinstance(begun, Begun):
            return self._back(room, form)
        onto = await onward(room, place, destination, host=request.host)
        if onto != destination:
            return go(onto)
        token = self._tokens.sign_session(room, place, state, host=request.host)
        return go(destination, self._visitors.session_cookie(room, state, token))

    @endpoint("POST /wait/{id}/recover")
    async def recover(self, request: Request) -> Answer:
        """Recover a missed turn by form."""
        room, form = await self._form(request)
        place = await self._held(request, room)
        if place is not None:
            await room.recover(place, self._cookies.possession(request, ""))
        return self._back(room, form)

    @endpoint("POST /wait/{id}/leave")
    async def leave(self, request: Request) -> Answer:
        """Leave by form."""
        room, form = await self._form(request)
        place = await self._held(request, room)
        if place is None:
            return self._back(room, form)
        own(await room.leave(place, self._cookies.possession(request, "")))
        state = await room.state(max_age=STATE_S)
        cookie = self._visitors.leaver_cookie(request, room, state)
        return self._back(room, form, cookie, more="&left=1")

    @endpoint("POST /wait/{id}/rejoin")
    async def rejoin(self, request: Request) -> Answer:
        """Take having left back by form."""
        room, form = await self._form(request)
        place = await self._held(request, room)
        if place is None:
            return self._back(room, form)
        back = await room.rejoin(place, self._cookies.possession(request, ""))
        if isinstance(back, Forbidden | Gone):
            return self._back(room, form)
        return self._back(room, form, self._visitors.rejoined_cookie(request, room))

    async def _form(self, request: Request) -> tuple[Room, dict[str, str]]:
        require_own_site(request)
        return await self._rooms.find(request.slots["id"]), await request.form()

    async def _held(self, request: Request, room: Room) -> Place | None:
        """The place of whoever asks; None when they show no ticket that counts."""
        state = await room.state(max_age=STATE_S)
        try:
            return self._holders.place(request, room, state)
        except Problem as problem:
            if problem.status != 401:
                raise
            return None

    async def _look(self, request: Request, room: Room, query: Mapping[str, str]) -> PageContext:
        state = await room.state(max_age=STATE_S)
        looks = await self._themes.looks(room, state)
        shown = PageContext(
            room=room,
            state=state,
            looks=looks,
            lang=_language(request, query, looks),
            sealed=self._sealed(query, room, state),
            status="new",
            ticket=query.get("ticket", ""),
            trouble=_SAID.get(query.get("trouble", ""), ""),
        )
        place = await self._held(request, room)
        if place is None:
            shown.status = self._refused(request, query, state, shown.ticket)
            shown.again_s = _seconds(query) if shown.status == "crowded" else 0
            return shown
        status = await self._looked(request, room, state, place)
        if is_over(state) and not isinstance(status, Called | Inside):
            shown.status, shown.held = serving_state(state), True
        elif isinstance(status, Gone):
            shown.status = "done" if await room.is_done(place) else "gone"
            until = await room.rejoinable_until(place)
            if until is not None:
                shown.status, shown.rejoinable_until = "left", rfc3339(until)
        elif isinstance(status, Late):
            shown.status, shown.recoverable_until = "missed", rfc3339(status.until_ms)
        else:
            shown.body = status_body(room, place, status, state)
            shown.status = shown.body.status
        return shown

    def _refused(
        self, request: Request, query: Mapping[str, str], state: RoomState, ticket: str
    ) -> str:
        """What somebody without a place is shown."""
        options, trouble = state.options, query.get("trouble", "")
        if is_over(state):
            return serving_state(state)
        if query.get("left"):
            return "gone"
        if options.status is Status.MAINTENANCE:
            return "maintenance"
        if options.status is Status.DRAINING:
            return "closed"
        if options.queueing_method is Method.REJECT:
            return "rejected"
        if 0 < options.max_queue_size <= state.waiting + state.early:
            return "full"
        if state.fields.get("invite_only") == "1" and not ticket:
            return "invite"
        # A browser that shows the key again does keep cookies.
        if trouble == "cookies" and self._cookies.visitor_key(request) is None:
            return "cookies"
        return "crowded" if trouble == "crowded" else "new"

    async def _looked(
        self, request: Request, room: Room, state: RoomState, place: Place
    ) -> VisitorStatus:
        """How things stand for somebody who looks at the page.

        It is a sign of life, which is all that a page without script can give.
        """
        if not is_over(state):
            shows = self._cookies.possession(request, "")
            status = await room.heartbeat(place, secret=shows)
            if not isinstance(status, Forbidden):
                return status
        return await room.status(place)

    def _sealed(self, query: Mapping[str, str], room: Room, state: RoomState) -> str:
        """Where the visitor wants to go, sealed; empty when nowhere in particular."""
        sealed, target = query.get("r", ""), query.get("target", "")
        if sealed:
            self._destination(state, room, sealed)
            return sealed
        if not target:
            return ""
        try:
            return self._tokens.seal_target(room, *split_target(target, return_hosts(state)))
        except InvalidInput as error:
            self._say_refused(room, error)
            raise Problem(400, RoomCode.TARGET_NOT_ALLOWED, str(error)) from None

    def _say_refused(self, room: Room, error: InvalidInput) -> None:
        """Tell the operator, who may have forgotten a host, and not once for every visitor."""
        now = self._clock.monotonic()
        if now >= self._said.get(room.name, now):
            self._said[room.name] = now + SAY_EVERY_S
            _log.warning("return_refused", product="waitingroom", queue=room.name, error=str(error))

    def _destination(self, state: RoomState, room: Room, sealed: str) -> str:
        try:
            return self._visitors.redirect_url(state, "", sealed, room)
        except InvalidInput as error:
            raise Problem(400, RoomCode.LINK_INVALID, str(error)) from None

    def _back(
        self, room: Room, form: dict[str, str], *cookies: tuple[bytes, bytes], more: str = ""
    ) -> Answer:
        lang = dictionary.choose(form.get("lang", ""), "")
        where = f"/wait/{room.name}?lang={lang}{with_return(form.get('r', ''))}"
        if form.get("plain"):
            where += "&plain=1"
        return go(where + more, *cookies)

    def _page(self, shown: PageContext, cookies: list[tuple[bytes, bytes]]) -> Answer:
        shown.target = self._destination(shown.state, shown.room, shown.sealed)
        page = fill("waiting.html", values(shown))
        code = page_status(shown.state)
        policy = page_headers(style=style(shown.looks), leads_to=leads_to(shown.state))
        headers = [*policy, *cookies]
        if code in (429, 503):
            headers.append((b"retry-after", str(REFRESH_S).encode()))
        return Answer(code, page, PAGE, headers)

    def endpoints(self) -> Iterator[Endpoint]:
        """The pages' part of the table."""
        return offered(self, group="pages")


def _referred(request: Request) -> dict[str, str]:
    """Where the shell was asked to lead, for browsers without scripts that it has sent on."""
    came = urlsplit(request.header("referer"))
    if came.netloc != request.host or came.path != request.path:
        return {}
    query = dict(parse_qsl(came.query, keep_blank_values=True))
    wanted = () if "plain" in query else ("r", "target", "ticket")
    return {name: query[name] for name in wanted if name in query}


def _language(request: Request, query: Mapping[str, str], looks: Theme) -> str:
    asked, accepted = query.get("lang", ""), request.header("accept-language")
    return dictionary.choose(asked, accepted, looks.language or dictionary.FALLBACK)


def _seconds(query: Mapping[str, str]) -> int:
    after = query.get("after", "")
    return min(3600, int(after)) if re.fullmatch(r"[0-9]{1,5}", after) else 60


def go(where: str, *headers: tuple[bytes, bytes], status: int = 303) -> Answer:
    """Send a browser elsewhere."""
    return Answer(status, headers=[(b"location", where.encode("latin-1")), NO_STORE, *headers])


_NAMES = {"seed": "seed", "beacon": "beacon", "count": "n", "digest": "digest"}
"""What a proof calls it, and what the API and the words of the page do."""


class DrawPage:
    """Shows what was published about the draw; the browser does the rest."""

    def __init__(self, rooms: Rooms, themes: ThemeStore) -> None:
        self._rooms = rooms
        self._themes = themes

    @endpoint("GET /wait/{id}/draw", gives={200: None}, fails=(404, 503))
    async def draw(self, request: Request) -> Answer:
        """The page that draws the lots again, in the visitor's browser."""
        room, state = await self._rooms.visit(request.slots["id"])
        lottery = Lottery(room)
        commitment, witness = await lottery.commitment(), await lottery.witness()
        over = state.phase == "open" and await lottery.is_held()
        if commitment is None and (planned := await next_draw(room)):
            commitment, witness = planned.commitment, planned.witness
        if commitment is None:
            raise Problem(404, Code.NOT_FOUND, "there is no draw in this room")
        published = {"commit": commitment}
        if witness:
            published["witness"] = witness
        if over:
            proof = await lottery.proof()
            published |= {shown: str(getattr(proof, name)) for name, shown in _NAMES.items()}
        looks = await self._themes.looks(room, state)
        lang = _language(request, request.query, looks)
        words = dictionary.languages()[lang]
        css, script = style(looks), source("draw.js")
        said = {name: words[f"page_draw_{name}"] for name in ("right", "wrong", "place")}
        said["away"] = words["page_away_text"]
        title = title_of(state, words["title"])
        page = fill(
            "draw.html",
            {
                "lang": lang,
                "dir": words["_dir"],
                "css": css,
                "logo": logo(looks, title),
                "room": title,
                "headline": words["fairness"],
                "text": words["page_draw_text"],
                "none": words["page_draw_wait"],
                "none_hidden": Markup("hidden" if over else ""),
                "published": Markup(
                    "".join(_row(words[f"page_draw_{k}"], value) for k, value in published.items())
                ),
                "again": words["page_draw_again"],
                "back": f"/wait/{room.name}?lang={lang}",
                "word_go": words["page_go"],
                "data": f"/api/v1/queues/{room.name}/fairness",
                "word_data": words["page_draw_data"],
                "facts": facts({"queue": room.name, "lang": lang, "words": said}),
                "script": script,
            },
        )
        return Answer(200, page, PAGE, page_headers(style=css, script=script))


def _row(name: str, value: str) -> str:
    return f'<div><dt>{escape(name)}</dt><dd dir="ltr">{escape(value)}</dd></div>'


class OperatorPages:
    """The endpoints that operators open; what they show is asked for with their sign-in."""

    def __init__(self, rooms: Rooms, provider: str) -> None:
        self._rooms = rooms
        self._provider = provider
        """The host of the identity provider; empty without one."""

    @endpoint("GET /operate")
    async def every(self, request: Request) -> Answer:
        """All rooms on one page."""
        return self._page("rooms", way="/sign-in")

    @endpoint("GET /operate/{id}")
    async def operate(self, request: Request) -> Answer:
        """The operator's page of one room."""
        room, state = await self._rooms.visit(request.slots["id"])
        way = f"/operate/{room.name}/sign-in"
        title = title_of(state, room.name)
        return self._page("operator", way=way, room=room.name, title=title)

    def _page(self, name: str, *, way: str, room: str = "", title: str = "") -> Answer:
        css, script = source("operator.css"), source("operating.js") + source(f"{name}.js")
        hidden = "" if self._provider else "hidden"
        sign_in = fill(
            "sign-in.html", {"way": way, "provider": self._provider, "no_provider": hidden}
        )
        page = fill(
            f"{name}.html",
            {
                "room": room,
                "title": title,
                "css": css,
                "script": Markup(script),
                "facts": facts({"queue": room}),
                "sign_in": Markup(sign_in.decode()),
            },
        )
        return Answer(200, page, PAGE, page_headers(style=css, script=script, frames="'self'"))


class SignIn:
    """The endpoints that a browser passes on its way."""

    def __init__(
        self, context: ServerContext, operators: Operators, provider: Provider | None
    ) -> None:
        self._rooms = context.rooms
        store, clock = context.rooms.store, context.clock
        self._way = ProviderSignIn(store, clock, context.cookies, operators, provider)

    @endpoint("GET /operate/{id}/sign-in")
    async def set_out(self, request: Request) -> Answer:
        """Sign in with the identity provider."""
        self._way.require_provider()
        room = await self._rooms.find(request.slots["id"])
        return await self._set_out(request, room.name)

    @endpoint("GET /sign-in")
    async def set_out_to_all(self, request: Request) -> Answer:
        """Sign in with the identity provider, from the page of all rooms."""
        self._way.require_provider()
        return await self._set_out(request, "")

    async def _set_out(self, request: Request, queue: str) -> Answer:
        try:
            where, cookie = await self._way.set_out(request, queue)
        except SignInRefused as refused:
            return _trouble(refused, queue)
        return go(where, cookie)

    @endpoint(f"GET {CALLBACK}")
    async def come_back(self, request: Request) -> Answer:
        """Return from the identity provider."""
        try:
            queue, cookies = await self._way.come_back(request)
        except SignInRefused as refused:
            return _trouble(refused, refused.page)
        return go(f"/operate/{queue}" if queue else "/operate", *cookies)


def _trouble(refused: SignInRefused, queue: str) -> Answer:
    css = source("operator.css")
    page = fill(
        "trouble.html",
        {
            "css": css,
            "trouble": f"{str(refused)[:1].upper()}{str(refused)[1:]}.",
            "back": f"/operate/{queue}" if queue else "",
            "hidden": "" if queue else "hidden",
        },
    )
    return Answer(refused.status, page, PAGE, page_headers(style=css))
