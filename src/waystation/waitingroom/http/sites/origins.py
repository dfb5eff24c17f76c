"""Origins: which pages of other hosts may ask the room from a script (CORS).

A script on a site may ask what a site's server may, and only on the hosts that an operator has
named in `return_hosts`. Cookies are never part of it, so no page can act in a visitor's name.
"""

from urllib.parse import urlsplit

import msgspec

from waystation.core.http.exchange import Answer, Headers, Request
from waystation.waitingroom.http.returns import return_hosts
from waystation.waitingroom.redis.store import STATE_S
from waystation.waitingroom.rooms import Rooms

_PATHS = ("/v1/enter", "/v1/redeem", "/v1/verify")
_SESSIONS = "/api/v1/sessions/"
_SHOWN = b"retry-after, wr-location"
_VARY = (b"vary", b"origin")
PREFLIGHT_S = 600


class Origins:
    """Answers browsers that ask whether a page of another host may ask."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms

    def concerns(self, request: Request) -> bool:
        """Whether a script of another host may be asking for something that it may ask for."""
        if b"origin" not in request.headers:
            return False
        return request.path in _PATHS or request.path.startswith(_SESSIONS)

    async def preflight(self, request: Request) -> Answer | None:
        """The answer to a browser that asks beforehand; None for everything else."""
        if request.method != "OPTIONS" or not request.header("access-control-request-method"):
            return None
        if not await self._is_known(request):
            return Answer(403, headers=[_VARY])
        return Answer(
            204,
            headers=[
                (b"access-control-allow-origin", request.headers[b"origin"]),
                (b"access-control-allow-methods", b"GET, POST"),
                (b"access-control-allow-headers", b"content-type, wr-session"),
                (b"access-control-max-age", b"%d" % PREFLIGHT_S),
                _VARY,
            ],
        )

    async def marked(self, request: Request, given: Answer) -> Answer:
        """The same answer, which the asking page may read if its host is known."""
        added: Headers = [_VARY]
        if await self._is_known(request):
            added.append((b"access-control-allow-origin", request.headers[b"origin"]))
            added.append((b"access-control-expose-headers", _SHOWN))
        return msgspec.structs.replace(given, headers=[*given.headers, *added])

    async def _is_known(self, request: Request) -> bool:
        origin = urlsplit(request.header("origin"))
        if origin.scheme not in ("http", "https") or not origin.netloc:
            return False
        states = await self._rooms.states(STATE_S)
        return any(origin.netloc in return_hosts(state) for _, state in states)
