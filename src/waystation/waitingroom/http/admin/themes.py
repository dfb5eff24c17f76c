"""Operator routes for the theme of the waiting page."""

from waystation.core import codec
from waystation.core.errors import InvalidOption, Malformed
from waystation.core.http.cookies import require_own_site
from waystation.core.http.endpoints import endpoint
from waystation.core.http.exchange import NO_STORE, Answer, Request, answer
from waystation.core.http.problems import Code, Problem
from waystation.waitingroom.http.admin.context import FAILS, ROOT, AdminContext
from waystation.waitingroom.http.pages.waiting import Shown, values
from waystation.waitingroom.http.theme_store import ThemeStore
from waystation.waitingroom.pages import words as dictionary
from waystation.waitingroom.pages.render import fill
from waystation.waitingroom.pages.theme import Theme

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

    @endpoint(f"GET {ROOT}/{{id}}/page", gives={200: Theme}, fails=FAILS, scope="viewer")
    async def read(self, request: Request) -> Answer:
        """The theme of the waiting page."""
        room, _ = await self._context.allowed(request, "viewer")
        return answer(await self._themes.looks(room, await room.state()))

    @endpoint(
        f"PUT {ROOT}/{{id}}/page", takes=Theme, gives={200: Theme}, fails=FAILS, scope="admin"
    )
    async def put(self, request: Request) -> Answer:
        """Change the theme of the waiting page."""
        room, who = await self._context.allowed(request, "admin")
        looks = await request.read(Theme, MOST_LOOKS)
        before = await room.state()
        await self._themes.put(room, looks)
        await self._context.note_change(who, "page", room, before, await room.state())
        return answer(looks)

    @endpoint(f"DELETE {ROOT}/{{id}}/page", gives={204: None}, fails=FAILS, scope="admin")
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
        fails=FAILS,
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
        shown = Shown(
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
