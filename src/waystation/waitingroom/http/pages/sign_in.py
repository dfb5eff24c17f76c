"""Routes of the sign-in with an identity provider."""

from waystation.core.http.endpoints import endpoint
from waystation.core.http.exchange import Answer, Request
from waystation.core.operators.oidc.errors import SignInRefused
from waystation.core.operators.oidc.options import CALLBACK
from waystation.core.operators.oidc.provider import Provider
from waystation.core.operators.operators import Operators
from waystation.core.operators.sign_in import ProviderSignIn
from waystation.waitingroom.http.context import ServerContext
from waystation.waitingroom.http.pages.headers import PAGE, page_headers
from waystation.waitingroom.http.pages.routes import go
from waystation.waitingroom.pages.render import fill, source


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
