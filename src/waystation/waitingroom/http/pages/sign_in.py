"""Routes of the sign-in with an identity provider."""

import secrets
from typing import Any, cast

from waystation.core.telemetry.logs import get_logger
from waystation.waitingroom.http.context import ServerContext
from waystation.waitingroom.http.framework.endpoints import endpoint
from waystation.waitingroom.http.framework.exchange import Answer, Request
from waystation.waitingroom.http.framework.pace import Pace
from waystation.waitingroom.http.framework.problems import Code, Problem
from waystation.waitingroom.http.operators.oidc.errors import SignInRefused, SignInUnknown
from waystation.waitingroom.http.operators.oidc.options import CALLBACK, Grant
from waystation.waitingroom.http.operators.oidc.provider import Provider
from waystation.waitingroom.http.operators.oidc.state_store import (
    LIFE_S,
    OidcStateStore,
    SignInState,
)
from waystation.waitingroom.http.operators.operators import SIGNED_IN_S, Operators, operator_cookie
from waystation.waitingroom.http.pages.routes import PAGE, go, page_headers
from waystation.waitingroom.pages.render import fill, source

LONGEST_SUBJECT = 255
_log = get_logger(__name__)


class SignIn:
    """The endpoints that a browser passes on its way."""

    def __init__(
        self, context: ServerContext, operators: Operators, provider: Provider | None
    ) -> None:
        self._rooms = context.rooms
        self._cookies = context.cookies
        self._operators = operators
        self._provider = provider
        self._sign_ins = OidcStateStore(context.rooms.store)
        self._cookie = context.cookies.name("j")
        # OperatorAdmin sign in now and then; whoever does nothing else fills the store.
        self._pace = Pace(every_s=3.0, burst=20, clock=context.clock)

    @endpoint("GET /operate/{id}/sign-in")
    async def set_out(self, request: Request) -> Answer:
        """Sign in with the identity provider."""
        provider = self._configured()
        room = await self._rooms.find(request.slots["id"])
        self._pace.require(request.address)
        queue = room.name
        try:
            await provider.meet()
            sign_in, state, cookie = await self._sign_ins.begin(queue)
            where = await provider.way_in(
                state=state, nonce=sign_in.nonce, verifier=sign_in.verifier
            )
        except SignInRefused as refused:
            return _trouble(refused, queue)
        return go(where, self._cookies.header(self._cookie, cookie, LIFE_S))

    @endpoint(f"GET {CALLBACK}")
    async def come_back(self, request: Request) -> Answer:
        """Return from the identity provider."""
        provider = self._configured()
        self._pace.require(request.address)
        queue = ""
        try:
            sign_in = await self._journey(request)
            queue = sign_in.queue
            token = await self._welcome(provider, request, sign_in)
        except SignInRefused as refused:
            _log.warning("sign_in_refused", queue=queue, error_class=type(refused).__name__)
            return _trouble(refused, queue)
        cookie = operator_cookie(self._cookies, self._operators.cookie, token, SIGNED_IN_S)
        return go(f"/operate/{queue}", cookie, self._cookies.header(self._cookie, "", 0))

    def _configured(self) -> Provider:
        if self._provider is None:
            raise Problem(404, Code.NOT_FOUND, "no identity provider is set up here")
        return self._provider

    async def _journey(self, request: Request) -> SignInState:
        cookie, state = request.cookies.get(self._cookie, ""), request.query.get("state", "")
        if not cookie or not state:
            raise SignInUnknown("this sign-in did not begin here, or is over; begin again")
        return await self._sign_ins.end(state, cookie)

    async def _welcome(self, provider: Provider, request: Request, sign_in: SignInState) -> str:
        said, options = request.query, provider.options
        # Another provider's answer must not be taken for this one's (RFC 9207).
        if said.get("iss", options.issuer) != options.issuer:
            raise SignInUnknown("another identity provider answered than the one that was asked")
        if "error" in said or not said.get("code"):
            raise SignInRefused("the identity provider did not let you in")
        claims = await provider.claims(said["code"], nonce=sign_in.nonce, verifier=sign_in.verifier)
        subject = str(claims["sub"])
        if not 0 < len(subject) <= LONGEST_SUBJECT or not subject.isprintable():
            raise SignInRefused("the identity provider calls you something that cannot be a name")
        grant = _granted(provider, claims)
        return await self._operators.welcome(
            options.issuer, subject, role=grant.role, queues=list(grant.queues)
        )


def _granted(provider: Provider, claims: dict[str, Any]) -> Grant:
    told = claims.get(provider.options.claim, [])
    groups = cast("list[Any]", told) if isinstance(told, list) else [told]
    grant = provider.options.granted(each for each in groups if isinstance(each, str))
    if grant is None:
        raise SignInRefused("the identity provider knows you, but no group of yours may operate")
    return grant


def _trouble(refused: SignInRefused, queue: str) -> Answer:
    nonce = secrets.token_urlsafe(16)
    page = fill(
        "trouble.html",
        {
            "nonce": nonce,
            "css": source("operator.css"),
            "trouble": f"{str(refused)[:1].upper()}{str(refused)[1:]}.",
            "back": f"/operate/{queue}" if queue else "",
            "hidden": "" if queue else "hidden",
        },
    )
    return Answer(refused.status, page, PAGE, page_headers(nonce, "'self'"))
