"""The error page for browsers."""

import re
from html import escape
from urllib.parse import urlsplit

from waystation.core.http.exchange import Answer, Headers, Request
from waystation.core.http.problems import Problem
from waystation.waitingroom.http.codes import RoomCode
from waystation.waitingroom.http.pages.headers import PAGE, page_headers
from waystation.waitingroom.pages import words as dictionary
from waystation.waitingroom.pages.render import Markup, fill, source
from waystation.waitingroom.pages.words import Words, seconds_text

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
    headline, text = _said(problem, words)
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
            "refresh": _refresh(problem, request, back),
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


def _said(problem: Problem, words: Words) -> tuple[str, str]:
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


def _refresh(problem: Problem, request: Request, back: str) -> Markup:
    if problem.status != 503:
        return Markup("")
    # What was sent by form is not sent again.
    where = f"; url={escape(back)}" if request.method == "POST" and back else ""
    after = escape(problem.headers.get("retry-after", "5"))
    return Markup(f'<meta http-equiv="refresh" content="{after}{where}">')
