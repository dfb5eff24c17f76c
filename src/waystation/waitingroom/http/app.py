"""The ASGI application of the waiting room's HTTP API, and its reference page."""

import time
from collections.abc import Awaitable, Callable

from waystation.core.errors import StoreError
from waystation.core.http import openapi
from waystation.core.http.addresses import networks
from waystation.core.http.endpoints import Table, endpoint, offered
from waystation.core.http.exchange import (
    NO_STORE,
    Answer,
    Receive,
    Request,
    Scope,
    Send,
    SlowBodies,
    answer,
    is_from_here,
    lifespan,
    problem_answer,
    reported,
    request_of,
)
from waystation.core.operators.oidc import Provider
from waystation.core.operators.operators import Operators
from waystation.core.operators.routes import OperatorRoutes
from waystation.core.store.connection import Store
from waystation.core.telemetry.metrics import CONTENT_TYPE
from waystation.waitingroom.http import waiting_page as refused
from waystation.waitingroom.http.admin_access import (
    AlarmAdmin,
    InvitationAdmin,
    Reports,
    SigningKeyAdmin,
    ThemeAdmin,
    WebhookAdmin,
)
from waystation.waitingroom.http.admin_bodies import AdminContext
from waystation.waitingroom.http.admin_rooms import Controls, EventAdmin, Overview, RoomAdmin
from waystation.waitingroom.http.context import ServerContext, ThemeStore
from waystation.waitingroom.http.fairness import Challenges, Fairness
from waystation.waitingroom.http.pages import DrawPage, OperatorPages, Pages, SignIn
from waystation.waitingroom.http.proxies import ENVOY, Origins, ProxyRoutes
from waystation.waitingroom.http.sites import Entries, Sessions
from waystation.waitingroom.http.status import Snapshots, Streams
from waystation.waitingroom.http.visitors import Visitors
from waystation.waitingroom.http.webhooks import WebhookDispatcher, dispatcher_of
from waystation.waitingroom.running import RoomMaintenance
from waystation.waitingroom.signing import KeyFile

ADMIT_LAG_S = 3.0
"""A room that nobody was called into for so long is not ready."""


class App:
    """Everything the waiting room answers over HTTP."""

    def __init__(
        self,
        context: ServerContext,
        *,
        maintenance: RoomMaintenance | None = None,
        dispatcher: WebhookDispatcher | None = None,
        keys: KeyFile | None = None,
        provider: Provider | None = None,
        metrics_page: Callable[[], Awaitable[bytes]] | None = None,
    ) -> None:
        options, rooms, cookies = context.options, context.rooms, context.cookies
        self.context = context
        self.store: Store = rooms.store
        self.operators = Operators(
            self.store,
            context.clock,
            cookie=cookies.name("o"),
            floor_s=options.change_floor_ms / 1000,
            guess_s=options.guess_floor_ms / 1000,
        )
        self.visitors = Visitors(context)
        sessions = Sessions(rooms, cookies, context.tokens, token_s=options.session_token_s)
        entries = Entries(context, self.operators)
        self._proxies = ProxyRoutes(context, sessions, entries)
        self._origins = Origins(rooms)
        self._maintenance = maintenance
        self._metrics_page = metrics_page
        self._snapshots = self.visitors.snapshots
        self._trusted = networks(options.trusted_proxies, "trusted_proxies")
        self._slow = SlowBodies()
        themes = ThemeStore()
        admin = AdminContext(rooms, self.operators, context.clock)
        host = provider.host if provider else ""
        self.table = Table(
            [
                *self.visitors.endpoints(),
                *sessions.endpoints(),
                *self._proxies.endpoints(),
                *entries.endpoints(),
                *offered(
                    RoomAdmin(admin),
                    Controls(admin),
                    Overview(admin),
                    AlarmAdmin(admin),
                    EventAdmin(admin),
                    InvitationAdmin(admin, context.tokens),
                    WebhookAdmin(admin, dispatcher or dispatcher_of(context)),
                    ThemeAdmin(admin, themes),
                    OperatorRoutes(self.operators, cookies),
                    Reports(admin),
                    SigningKeyAdmin(admin, context.tokens, keys),
                    group="admin",
                ),
                *Pages(context, self.visitors, themes).endpoints(),
                *offered(
                    DrawPage(rooms, themes),
                    OperatorPages(rooms, host),
                    SignIn(context, self.operators, provider),
                    group="pages",
                ),
                *offered(self, group="operations"),
            ]
        )
        self.described = openapi.document(self.table, title="waystation waiting room")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            # The one everybody asks for, all the time: from memory, without a detour.
            if kept := self._snapshots.fresh_answer(scope):
                await send(kept[0])
                await send(kept[1])
                return
            await (await self._answer(scope, receive)).send(send)
        elif scope["type"] == "lifespan":
            await lifespan(receive, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        request = request_of(scope, receive, self._trusted, self._slow)
        if not self._origins.concerns(request):
            return await self._answer_to(request)
        try:
            if (given := await self._origins.preflight(request)) is None:
                given = await self._origins.marked(request, await self._answer_to(request))
        except StoreError as error:
            return self._problem(error, request)
        return given

    async def _answer_to(self, request: Request) -> Answer:
        try:
            if request.path.startswith(ENVOY):
                return await self._proxies.verify_for_envoy(request)
            endpoint, slots = self.table.find(request.method, request.path)
            request.slots = slots
            given = await endpoint.handler(request)
        except Exception as error:  # the last place where a mistake can be logged
            return self._problem(error, request)
        if request.method == "HEAD" and type(given) is Answer:
            return Answer(given.status, b"", given.kind, given.headers)
        return given

    def _problem(self, error: Exception, request: Request) -> Answer:
        problem, request_id, headers = reported(error)
        if refused.is_shown(request):
            return refused.page(problem, request, request_id, headers)
        return problem_answer(problem, request_id, headers)

    @endpoint("GET /health/live")
    async def live(self, request: Request) -> Answer:
        """Liveness of the process."""
        return answer({"status": "alive"})

    @endpoint("GET /health/ready", fails=(503,))
    async def ready(self, request: Request) -> Answer:
        """Readiness for visitors."""
        began = time.perf_counter()
        checks = {"keys": bool(self.context.tokens.keyring.jwks()["keys"])}
        try:
            await self.store.check()
            checks["store"] = True
        except StoreError:
            checks["store"] = False
        if self._maintenance is not None:
            checks["admission"] = self._maintenance.lag_s() < ADMIT_LAG_S
        well = all(checks.values())
        took_ms = round((time.perf_counter() - began) * 1000, 3)
        return answer(
            {"ready": well, "components": checks, "took_ms": took_ms}, 200 if well else 503
        )

    @endpoint("GET /metrics", gives={200: None}, fails=(401, 403, 429, 503))
    async def numbers(self, request: Request) -> Answer:
        """Prometheus metrics, for this machine or with a key."""
        if not is_from_here(request):
            await self.operators.require(request, "viewer")
        of_all = self._metrics_page
        page = await of_all() if of_all else self.context.metrics.expose()
        return Answer(200, page, CONTENT_TYPE.encode(), [NO_STORE])

    @endpoint("GET /openapi.json")
    async def describe(self, request: Request) -> Answer:
        """The OpenAPI document."""
        return Answer(200, self.described, headers=[(b"cache-control", b"public, max-age=60")])


PARTS: dict[str, tuple[type, ...]] = {
    "Visitors": (Visitors, Challenges, Snapshots, Streams, Fairness),
    "Sessions": (Sessions,),
    "Proxies and middleware": (ProxyRoutes, Entries),
    "Rooms": (RoomAdmin,),
    "The hand on a running room": (Controls,),
    "Numbers": (Overview, Reports, AlarmAdmin),
    "Events": (EventAdmin,),
    "Invitations and access codes": (InvitationAdmin,),
    "How the waiting page looks": (ThemeAdmin,),
    "Webhooks": (WebhookAdmin,),
    "Operators": (OperatorRoutes,),
    "Signing keys": (SigningKeyAdmin,),
    "Operations": (App,),
    "Pages": (Pages, DrawPage, OperatorPages, SignIn),
}
_INTRO = """What the waiting room answers. `/openapi.json` says the same, field by field.

*Needs* is what has to be shown: a `ticket` or a `session` is what a visitor was given, as a cookie
or as `Authorization: Bearer` or `Wr-Session`; the others are roles of an operator's key, shown as
`Authorization: Bearer` or by the cookie of somebody who signed in. A key may do what the roles
before it may: viewer, operator, admin. Every error is answered as `application/problem+json`,
with one name for it in `code`."""


def page() -> str:
    """The page as Markdown."""
    return openapi.page("HTTP", _INTRO, PARTS)
