"""The ASGI application: routes requests and reports every error as a problem document."""

import secrets
import time

from waystation.core.errors import StoreError
from waystation.core.store.connection import Store
from waystation.core.telemetry.logs import get_logger
from waystation.core.telemetry.metrics import CONTENT_TYPE
from waystation.waitingroom.http.admin.context import AdminContext
from waystation.waitingroom.http.admin.controls import Controls
from waystation.waitingroom.http.admin.events import EventAdmin
from waystation.waitingroom.http.admin.invitations import InvitationAdmin
from waystation.waitingroom.http.admin.operators import OperatorAdmin
from waystation.waitingroom.http.admin.overview import Overview
from waystation.waitingroom.http.admin.reports import Reports
from waystation.waitingroom.http.admin.rooms import RoomAdmin
from waystation.waitingroom.http.admin.signing_keys import SigningKeyAdmin
from waystation.waitingroom.http.admin.themes import ThemeAdmin
from waystation.waitingroom.http.admin.webhooks import WebhookAdmin
from waystation.waitingroom.http.context import ServerContext
from waystation.waitingroom.http.framework import openapi
from waystation.waitingroom.http.framework.addresses import is_among, networks, visitor_address
from waystation.waitingroom.http.framework.endpoints import Table, endpoint, offered
from waystation.waitingroom.http.framework.exchange import (
    NO_STORE,
    Answer,
    Receive,
    Request,
    Scope,
    Send,
    answer,
)
from waystation.waitingroom.http.framework.problems import KIND, Problem, from_error
from waystation.waitingroom.http.operators.oidc.provider import Provider
from waystation.waitingroom.http.operators.operators import Operators
from waystation.waitingroom.http.pages import refused
from waystation.waitingroom.http.pages.routes import Pages
from waystation.waitingroom.http.pages.sign_in import SignIn
from waystation.waitingroom.http.sites.proxies import ENVOY, ProxyRoutes
from waystation.waitingroom.http.sites.sessions import Sessions
from waystation.waitingroom.http.theme_store import ThemeStore
from waystation.waitingroom.http.visitors.routes import Visitors
from waystation.waitingroom.http.webhooks.dispatcher import WebhookDispatcher, dispatcher_of
from waystation.waitingroom.maintenance import RoomMaintenance
from waystation.waitingroom.signing.keyfile import KeyFile

_log = get_logger(__name__)
_SAFE: list[tuple[bytes, bytes]] = [(b"x-content-type-options", b"nosniff")]
_HANDED_ON = {
    b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip", b"forwarded",
    b"via",
}  # fmt: skip
"""What a proxy adds: who asks through one is not on this machine, whatever the address says."""
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
        self._proxies = ProxyRoutes(context, sessions, self.operators)
        self._maintenance = maintenance
        self._snapshots = self.visitors.snapshots
        self._trusted = networks(options.trusted_proxies)
        themes = ThemeStore()
        admin = AdminContext(rooms, self.operators, context.clock)
        host = provider.host if provider else ""
        self.table = Table(
            [
                *self.visitors.endpoints(),
                *sessions.endpoints(),
                *self._proxies.endpoints(),
                *offered(
                    RoomAdmin(admin),
                    Controls(admin),
                    Overview(admin),
                    EventAdmin(admin),
                    InvitationAdmin(admin, context.tokens),
                    WebhookAdmin(admin, dispatcher or dispatcher_of(context)),
                    ThemeAdmin(admin, themes),
                    OperatorAdmin(admin, cookies),
                    Reports(admin),
                    SigningKeyAdmin(admin, context.tokens, keys),
                    group="admin",
                ),
                *Pages(context, self.visitors, themes, provider=host).endpoints(),
                *offered(SignIn(context, self.operators, provider), group="pages"),
                *offered(self, group="operations"),
            ]
        )
        self.described = openapi.document(self.table)

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
            await _live(receive, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        request = self._request(scope, receive)
        try:
            if request.path.startswith(ENVOY):
                return await self._proxies.verify_for_envoy(request)
            endpoint, slots = self.table.find(request.method, request.path)
            request.slots = slots
            given = await endpoint.handler(request)
        except Exception as error:  # the last place where a mistake can be told
            return self._problem(error, request)
        if request.method == "HEAD" and type(given) is Answer:
            return Answer(given.status, b"", given.kind, given.headers)
        return given

    def _request(self, scope: Scope, receive: Receive) -> Request:
        peer = scope.get("client")
        address = peer[0] if peer else ""
        if not self._trusted or not is_among(address, self._trusted):
            return Request(scope, receive, address)
        said = [v for n, v in scope["headers"] if n == b"x-forwarded-for"]
        hops = b",".join(said).decode("latin-1")
        visitor = visitor_address(address, hops, self._trusted)
        return Request(scope, receive, visitor, proxied=True)

    def _problem(self, error: Exception, request: Request) -> Answer:
        problem = from_error(error)
        request_id = secrets.token_hex(8)
        if problem.status >= 500 and not isinstance(error, Problem | StoreError):
            _log.exception("request_failed", request_id=request_id)
        headers = [(n.encode(), v.encode("latin-1")) for n, v in problem.headers.items()]
        if refused.is_shown(request):
            return refused.page(problem, request, request_id, headers)
        return Answer(problem.status, problem.body(request_id), KIND, [NO_STORE, *_SAFE, *headers])

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
        if request.address not in ("127.0.0.1", "::1") or _HANDED_ON & request.headers.keys():
            await self.operators.require(request, "viewer")
        return Answer(200, self.context.metrics.expose(), CONTENT_TYPE.encode(), [NO_STORE])

    @endpoint("GET /openapi.json")
    async def describe(self, request: Request) -> Answer:
        """The OpenAPI document."""
        return Answer(200, self.described, headers=[(b"cache-control", b"public, max-age=60")])


async def _live(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
