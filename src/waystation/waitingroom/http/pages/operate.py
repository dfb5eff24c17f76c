"""The operator's pages: all rooms, and one of them."""

from waystation.core.http.endpoints import endpoint
from waystation.core.http.exchange import Answer, Request
from waystation.waitingroom.http.pages.headers import PAGE, page_headers
from waystation.waitingroom.http.pages.waiting import title_of
from waystation.waitingroom.pages.render import Markup, facts, fill, source
from waystation.waitingroom.rooms import Rooms


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
