"""The shell of the waiting page: the same for everybody who opens a room in a language.

Who looks, and where they want to go, the page asks for itself (`GET /wait/{id}/facts`), so the
shell is made and compressed once, and browsers and caches in front of the room may keep it.
"""

import gzip
import hashlib
from typing import NamedTuple

from waystation.core.http.exchange import Answer, Request
from waystation.waitingroom.http.pages.headers import PAGE, page_headers
from waystation.waitingroom.http.pages.waiting import (
    REFRESH_S,
    Shown,
    leads_to,
    page_status,
    script,
    style,
    title_of,
    values,
)
from waystation.waitingroom.pages.render import fill
from waystation.waitingroom.pages.theme import Theme
from waystation.waitingroom.room import Room
from waystation.waitingroom.state import RoomState

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
            kept = _made(Shown.nobody(room, state, looks, lang), said, self._embeds)
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


def _made(shown: Shown, said: tuple[object, ...], embeds: str) -> _Kept:
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
