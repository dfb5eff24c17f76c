"""The waiting page, and pages that refuse: their texts, headers and shells.

Who looks, and where they want to go, the page asks for itself (`GET /wait/{id}/facts`), so the
shell is made and compressed once, and browsers and caches in front of the room may keep it.
"""

import gzip
import hashlib
import re
from base64 import b64encode
from datetime import UTC, datetime
from functools import cache, lru_cache
from html import escape
from typing import NamedTuple, Self
from urllib.parse import quote, urlsplit

import msgspec

from waystation.core.durations import whole_seconds
from waystation.core.http.exchange import NO_STORE, Answer, Headers, Request
from waystation.core.http.problems import Problem
from waystation.waitingroom.http.bodies import PlaceBody, rfc3339
from waystation.waitingroom.http.context import return_hosts
from waystation.waitingroom.http.options import RoomCode
from waystation.waitingroom.http.status import OVER, ending, notice, serving_state
from waystation.waitingroom.pages import words as dictionary
from waystation.waitingroom.pages.render import Markup, facts, fill, source
from waystation.waitingroom.pages.theme import Theme
from waystation.waitingroom.pages.words import EXACT_BELOW, Words, rounded, seconds_text, wait_text
from waystation.waitingroom.room import Room
from waystation.waitingroom.state import RoomState

PAGE = b"text/html; charset=utf-8"


def page_headers(
    *,
    style: str,
    script: str = "",
    leads_to: str = "'self'",
    workers: str = "'none'",
    embeds: str = "",
    frames: str = "",
    kept: tuple[bytes, bytes] = NO_STORE,
) -> Headers:
    """The headers of a page with this style sheet and this script, and with no others.

    `embeds` are the addresses of a CAPTCHA, which the page may load if it has to; `frames` what it
    may show in a frame besides.
    """
    runs = _hashed(script) if script else "'none'"
    theirs = f" {embeds}" if embeds else ""
    framed = f"frame-src {embeds or frames}; " if embeds or frames else ""
    policy = (
        f"default-src 'none'; script-src {runs}{theirs}; style-src {_hashed(style)}; "
        f"img-src data:; font-src data:; connect-src 'self'{theirs}; {framed}worker-src {workers}; "
        f"form-action {leads_to}; base-uri 'none'; frame-ancestors 'none'"
    )
    return [
        kept,
        (b"content-security-policy", policy.encode()),
        (b"x-frame-options", b"DENY"),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"same-origin"),
        (b"x-robots-tag", b"noindex"),
    ]


@lru_cache(maxsize=256)
def _hashed(text: str) -> str:
    """How a policy names an element with this text."""
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


JOINS = ("new", "gone", "done", "invite", "crowded", "cookies")
"""Where somebody may ask for a place by a press."""
QUIET = ("closed", "sold_out", "done", "left", "maintenance", "missed", "rejected")
"""Where nobody needs to read why there is a line."""
SHELL = "loading"
"""The status of a page that has to ask yet who looks at it."""
REFRESH_S = 20
"""How often a page without JavaScript looks again, unless the room wants to hear it sooner."""
WAITS = ("waiting", "prequeued", "returned")
LOOKS_AGAIN = ("admitted", "full", "maintenance", "missed", "rejected")
"""When else a page without JavaScript looks again by itself."""
_LABELS = (
    "ahead", "place", "wait", "progress", "join", "enter", "recover", "rejoin", "notify", "leave",
    "leave_ask", "leave_yes", "ticket", "language", "code",
)  # fmt: skip


class PageContext(msgspec.Struct, kw_only=True):
    """What one page is about."""

    room: Room
    state: RoomState
    looks: Theme
    lang: str
    sealed: str
    status: str
    ticket: str = ""
    """The invitation that the visitor came with."""
    trouble: str = ""
    """The word for what went wrong with the last step, if anything did."""
    again_s: int = 0
    """How many seconds later it may be tried again."""
    held: bool = False
    """Whether the visitor had a place when the room ended."""
    target: str = ""
    """Where the visitor wants to go, as a browser reads it."""
    body: PlaceBody | None = None
    recoverable_until: str | None = None
    rejoinable_until: str | None = None

    @classmethod
    def nobody(cls, room: Room, state: RoomState, looks: Theme, lang: str) -> Self:
        """A page about nobody yet."""
        return cls(room=room, state=state, looks=looks, lang=lang, sealed="", status=SHELL)


def style(looks: Theme) -> Markup:
    """The style sheet of a room's page."""
    return Markup(source("waiting.css") + looks.css())


@cache
def script() -> Markup:
    """The script of the page."""
    return Markup(source("estimate.js") + source("prove.js") + source("waiting.js"))


def title_of(state: RoomState, otherwise: str) -> str:
    """What the room is called."""
    return state.options.name or otherwise


def page_status(state: RoomState) -> int:
    """The HTTP status that the operator wants the page to have."""
    status = state.fields.get("page_status", "200")
    return int(status) if status in ("200", "202", "429", "503") else 200


def leads_to(state: RoomState) -> str:
    """Where the forms of a room's page may lead, as a policy says it."""
    # A form that ends in a redirect may only lead where the policy says.
    target = state.options.target_url
    own = ["/".join(target.split("/")[:3])] if target else []
    return " ".join(["'self'", *return_hosts(state), *own])


def values(shown: PageContext) -> dict[str, str]:
    """Everything that the template has a slot for."""
    words = dictionary.languages()[shown.lang]
    name, status, body = shown.room.name, shown.status, shown.body
    title = title_of(shown.state, words["title"])
    waits, now = status in WAITS, datetime.now(UTC).strftime("%H:%M:%S UTC")
    return {
        "lang": shown.lang,
        "dir": words["_dir"],
        "title": title,
        "room": title,
        "status": status,
        "refresh": _refresh(shown, waits or status in LOOKS_AGAIN),
        "css": style(shown.looks),
        "logo": logo(shown.looks, title),
        "headline": words["head_trouble" if status == SHELL else f"head_{status}"],
        "text": _text(shown, words),
        "own": _own(shown.looks, shown.lang),
        **_notices(shown, words),
        **_numbers(shown, words),
        "action": f"/wait/{name}",
        "back": _kept(shown),
        "code_hidden": _unless(status == "invite"),
        "join_hidden": _unless(status in JOINS),
        "claim_hidden": _unless(status in ("admitted", "active")),
        "recover_hidden": _unless(status == "missed"),
        "rejoin_hidden": _unless(status == "left"),
        "leave_hidden": _unless(waits or status == "admitted"),
        "updated": "" if status == SHELL else words["updated"].replace("{time}", now),
        "why_hidden": _unless(status not in QUIET),
        "why": words["why"],
        **_onward(shown, words),
        "ticket_hidden": _unless(body is not None),
        "ticket": body.position_id[-6:] if body else "",
        "fairness": _fairness(shown, words),
        "support": _support(shown.looks, words),
        "languages": _languages(name, shown),
        "spoken": words["_name"],
        "scripts": _scripts(shown, title, words) if status == SHELL else Markup(""),
        **{f"word_{word}": words[word] for word in _LABELS},
    }


def _text(shown: PageContext, words: Words) -> str:
    # A page without script cannot try again by itself, so it says when to.
    if shown.status == "crowded":
        return seconds_text(words, "text_crowded_form", shown.again_s)
    if shown.status == "prequeued":
        return _gathering(shown.state, words)
    if shown.status in OVER:
        said = ending(shown.state).text
        own = said.get(shown.lang) or next(iter(said.values()), "")
        ended = "text_over" if shown.held and shown.status == "closed" else f"text_{shown.status}"
        return own or words[ended]
    return words.get(f"text_{shown.status}", "")


def _onward(shown: PageContext, words: Words) -> dict[str, str]:
    """The way on from a room that is over: the seller's link, else the site that they came from."""
    link = ending(shown.state).link or site_of(shown.target) if shown.status in OVER else ""
    hidden = _unless(bool(link))
    return {"onward_hidden": hidden, "onward": link, "word_onward": words["onward"]}


def site_of(target: str) -> str:
    """The first page of the site that an address is on; empty for a path of the room's own host."""
    parts = urlsplit(target)
    return f"https://{parts.netloc}/" if parts.netloc else ""


def _gathering(state: RoomState, words: Words) -> str:
    """What those who came early are promised: the same chance only where lots are drawn."""
    lots = bool(state.fields.get("commitment"))
    return words["text_prequeued" if lots else "page_prequeued_order"]


def _scripts(shown: PageContext, title: str, words: Words) -> Markup:
    spoken = {k: v for k, v in words.items() if not k.startswith(("_", "page_"))}
    spoken["text_prequeued"] = _gathering(shown.state, words)
    spoken["away"] = words["page_away_text"]
    known = facts({"queue": shown.room.name, "lang": shown.lang, "title": title, "words": spoken})
    return Markup(
        f'<script type="application/json" id="facts">{known}</script>\n<script>{script()}</script>'
    )


def _notices(shown: PageContext, words: Words) -> dict[str, str]:
    said = notice(shown.state)
    message = (said.text.get(shown.lang) or next(iter(said.text.values()), "")) if said else ""
    state = serving_state(shown.state)
    held = {"paused": "paused", "prequeue": "later"}.get(state, "")
    paused = shown.status in ("waiting", "returned") and bool(held)
    trouble = words.get(shown.trouble, "")
    return {
        "notice": message,
        "notice_level": said.level if said and said.level == "warning" else "info",
        "notice_hidden": _unless(bool(message)),
        "banner": trouble or (words[held] if paused else ""),
        "banner_hidden": _unless(paused or bool(trouble)),
    }


def _numbers(shown: PageContext, words: Words) -> dict[str, str]:
    body, status = shown.body, shown.status
    ahead = body.people_ahead if body else None
    wait = body.estimated_wait if body else None
    until = shown.recoverable_until if status == "missed" else None
    if body is not None:
        until = body.claim_deadline or body.starts_at
    clock = _clock(until, shown.state.now_ms)
    label = {"admitted": "left", "prequeued": "starts", "waiting": "starts", "missed": "until"}
    return {
        "numbers_hidden": _unless(status in WAITS or status in ("admitted", "missed")),
        "ahead_hidden": _unless(ahead is not None),
        "ahead": f"{rounded(ahead or 0):,}",
        "place_hidden": _unless(ahead is not None and ahead < EXACT_BELOW),
        "place": f"{(ahead or 0) + 1:,}",
        "wait_hidden": _unless(status in ("waiting", "returned")),
        "wait": wait_text(words, wait.p10 if wait else None, wait.p90 if wait else None),
        "clock_hidden": _unless(bool(clock)),
        "clock": clock,
        "word_clock": words[label.get(status, "clock")],
    }


def with_return(sealed: str) -> str:
    """The part of a query that keeps where the visitor wants to go."""
    return f"&r={quote(sealed, safe='')}" if sealed else ""


def _kept(shown: PageContext) -> Markup:
    plain = "" if shown.status == SHELL else "1"
    fields = {"r": shown.sealed, "ticket": shown.ticket, "lang": shown.lang, "plain": plain}
    return Markup(
        "".join(
            f'<input type="hidden" name="{name}" value="{escape(value)}">'
            for name, value in fields.items()
            if value
        )
    )


def _unless(shown: bool) -> Markup:
    return Markup("" if shown else "hidden")


def _refresh(shown: PageContext, needed: bool) -> Markup:
    if shown.status == SHELL:
        where = f"/wait/{shown.room.name}?plain=1&amp;lang={shown.lang}"
        return Markup(f'<noscript><meta http-equiv="refresh" content="0; url={where}"></noscript>')
    # Looking at the page is how a page without script stays in line.
    often = min(REFRESH_S, whole_seconds(shown.state.options.idle) * 2 // 5)
    return Markup(f'<meta http-equiv="refresh" content="{often}">' if needed else "")


def _clock(until: str | None, now_ms: int) -> str:
    """An instant in rfc3339 as a clock shows it, with the date unless that is today's."""
    if not until:
        return ""
    today = until[:10] == rfc3339(now_ms)[:10]
    return f"{until[11:19] if today else until[:16].replace('T', ' ')} UTC"


def logo(looks: Theme, title: str) -> Markup:
    """The site's logo, if it has one."""
    if not looks.logo:
        return Markup("")
    return Markup(f'<img class="logo" src="{escape(looks.logo)}" alt="{escape(title)}">')


def _own(looks: Theme, lang: str) -> Markup:
    text = looks.text.get(lang) or looks.text.get(looks.language or "en") or ""
    return Markup(f'<p class="own">{escape(text)}</p>' if text else "")


def _support(looks: Theme, words: Words) -> Markup:
    if not looks.support:
        return Markup("")
    where = escape(looks.support)
    return Markup(f'<p class="small"><a href="{where}">{escape(words["support"])}</a></p>')


def _fairness(shown: PageContext, words: Words) -> Markup:
    if not shown.state.fields.get("commitment"):
        return Markup("")
    where = f"/wait/{shown.room.name}/draw?lang={shown.lang}"
    return Markup(f'<p class="small"><a href="{where}">{escape(words["fairness"])}</a></p>')


def _languages(name: str, shown: PageContext) -> Markup:
    links = list[str]()
    more = with_return(shown.sealed) + (f"&ticket={shown.ticket}" if shown.ticket else "")
    if shown.status != SHELL:
        more += "&plain=1"
    for tag, words in dictionary.languages().items():
        here = ' aria-current="true"' if tag == shown.lang else ""
        where = f"/wait/{name}?lang={tag}{escape(more)}"
        links.append(f'<a href="{where}" lang="{tag}" hreflang="{tag}"{here}>{words["_name"]}</a>')
    return Markup("".join(links))


CACHED = (b"cache-control", b"public, max-age=10, stale-while-revalidate=60")
"""An operator's change is seen within seconds; nobody waits for the page meanwhile."""
VARIES = (b"vary", b"accept-encoding, accept-language")
MOST_KEPT = 1000
"""Shells that are kept, of all rooms and languages together."""


class Shells:
    """Makes the shells of all rooms, and keeps them until something in them changes."""

    def __init__(self, embeds: str = "") -> None:
        self._embeds = embeds
        self._kept: dict[tuple[str, str], _Kept] = {}

    def answer(
        self, request: Request, room: Room, state: RoomState, looks: Theme, lang: str
    ) -> Answer:
        """The shell, compressed for whoever can read that, or the word that it is the same."""
        kept = self._kept.get((room.name, lang))
        if kept is None or kept.state is not state or kept.looks is not looks:
            kept = self._renewed(kept, room, state, looks, lang)
        packed = b"gzip" in request.headers.get(b"accept-encoding", b"")
        found = kept.packed if packed else kept.whole
        asked = request.headers.get(b"if-none-match")
        if asked is not None and found.tag and found.tag in asked:
            return found.same
        return found.answer

    def _renewed(
        self, kept: "_Kept | None", room: Room, state: RoomState, looks: Theme, lang: str
    ) -> "_Kept":
        said = _said(state, looks)
        if kept is None or kept.said != said:
            kept = _made(PageContext.nobody(room, state, looks, lang), said, self._embeds)
        else:
            kept = kept._replace(state=state, looks=looks)
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        self._kept[room.name, lang] = kept
        return kept


class _Form(NamedTuple):
    """One form in which a shell is sent."""

    answer: Answer
    tag: bytes
    same: Answer


class _Kept(NamedTuple):
    state: RoomState
    looks: Theme
    said: tuple[object, ...]
    """All that the shell says about its room."""
    whole: _Form
    packed: _Form


def _said(state: RoomState, looks: Theme) -> tuple[object, ...]:
    fields = state.fields
    commitment = bool(fields.get("commitment"))
    return looks, title_of(state, ""), leads_to(state), page_status(state), commitment


def _made(shown: PageContext, said: tuple[object, ...], embeds: str) -> _Kept:
    page = fill("waiting.html", values(shown))
    status = page_status(shown.state)
    headers = page_headers(
        style=style(shown.looks),
        script=script(),
        leads_to=leads_to(shown.state),
        workers="blob:",
        embeds=embeds,
        kept=CACHED,
    )
    if status != 200:
        # What is answered like an error is kept by nobody.
        headers[0] = (b"cache-control", b"no-store")
    if status in (429, 503):
        headers.append((b"retry-after", str(REFRESH_S).encode()))

    digest = hashlib.sha256(page).hexdigest()[:16]

    def form(body: bytes, suffix: str, *more: tuple[bytes, bytes]) -> _Form:
        tag = f'"{digest}{suffix}"'.encode() if status == 200 else b""
        tagged = [*headers, VARIES, (b"etag", tag)] if tag else [*headers, VARIES]
        return _Form(Answer(status, body, PAGE, [*tagged, *more]), tag, Answer(304, headers=tagged))

    packed = gzip.compress(page, 9, mtime=0)
    return _Kept(
        state=shown.state,
        looks=shown.looks,
        said=said,
        whole=form(page, ""),
        packed=form(packed, "-gzip", (b"content-encoding", b"gzip")),
    )


_ROOM = re.compile(r"(/wait/[A-Za-z0-9_.-]+)(/[a-z]+)?")
_LINKS: dict[str, str] = {
    RoomCode.LINK_INVALID: "page_link_text",
    RoomCode.TARGET_NOT_ALLOWED: "page_target_text",
}


def is_shown(request: Request) -> bool:
    """Whether a browser asks, for a page."""
    ours = request.path.startswith(("/wait/", "/operate")) or _is_sent_nowhere(request)
    return request.wants_page and ours


def _is_sent_nowhere(request: Request) -> bool:
    """Whether somebody came in from a room without a `target_url`, and found no site here."""
    inside = any("wr_s_" in name for name in request.cookies)
    return inside and request.path == "/"


def page(problem: Problem, request: Request, request_id: str, headers: Headers) -> Answer:
    """The page that says it, in the visitor's language."""
    lang = dictionary.choose(request.query.get("lang", ""), request.header("accept-language"))
    words = dictionary.languages()[lang]
    headline, text = _in_words(problem, words)
    if _is_sent_nowhere(request):
        headline, text = words["head_active"], words["text_active"]
    back = _back(problem, request)
    css = source("waiting.css")
    body = fill(
        "refused.html",
        {
            "lang": lang,
            "dir": words["_dir"],
            "css": css,
            "refresh": _look_again(problem, request, back),
            "headline": headline,
            "text": text,
            "back": back,
            "back_hidden": Markup("" if back else "hidden"),
            "word_go": words["page_go"],
            "code": problem.code,
            "request_id": request_id,
        },
    )
    return Answer(problem.status, body, PAGE, [*page_headers(style=css), *headers])


def _in_words(problem: Problem, words: Words) -> tuple[str, str]:
    if problem.code in _LINKS:
        return words["page_link_head"], words[_LINKS[problem.code]]
    if problem.status == 404:
        return words["page_unknown_head"], words["page_unknown_text"]
    if problem.status == 503:
        return words["head_trouble"], words["page_away_text"]
    if problem.status == 429:
        after = problem.headers.get("retry-after", "60")
        return words["head_trouble"], seconds_text(words, "page_busy_text", int(after))
    return words["page_other_head"], words["page_other_text"]


def _back(problem: Problem, request: Request) -> str:
    """The waiting page that somebody came from, or the one that they asked for without its link."""
    found = _ROOM.fullmatch(request.path)
    if found is None or problem.status == 404:
        return ""
    came = urlsplit(request.header("referer"))
    if found[2] and came.netloc == request.host and came.path == found[1]:
        return f"{came.path}?{came.query}" if came.query else came.path
    return found[1]


def _look_again(problem: Problem, request: Request, back: str) -> Markup:
    if problem.status != 503:
        return Markup("")
    # What was sent by form is not sent again.
    where = f"; url={escape(back)}" if request.method == "POST" and back else ""
    after = escape(problem.headers.get("retry-after", "5"))
    return Markup(f'<meta http-equiv="refresh" content="{after}{where}">')
