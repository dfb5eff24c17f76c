"""The page on which anybody draws the lots of a room again."""

from html import escape

from waystation.core.http.endpoints import endpoint
from waystation.core.http.exchange import Answer, Request
from waystation.core.http.problems import Code, Problem
from waystation.waitingroom.http.pages.headers import PAGE, page_headers
from waystation.waitingroom.http.pages.waiting import logo, style, title_of
from waystation.waitingroom.http.theme_store import ThemeStore
from waystation.waitingroom.operating.lottery import Lottery
from waystation.waitingroom.operating.schedule import next_draw
from waystation.waitingroom.pages import words as dictionary
from waystation.waitingroom.pages.render import Markup, facts, fill, source
from waystation.waitingroom.rooms import Rooms

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
        asked, accepted = request.query.get("lang", ""), request.header("accept-language")
        lang = dictionary.choose(asked, accepted, looks.language or dictionary.FALLBACK)
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
