"""The ASGI application of the console, and its reference page."""

from urllib.parse import quote, unquote

from waystation.console.actions.kinds import ACTIONS
from waystation.console.context import Console
from waystation.console.options import ConsoleOptions
from waystation.console.routes.failures import Failures
from waystation.console.routes.history import HistoryRoutes
from waystation.console.routes.jobs import Jobs
from waystation.console.routes.live import Live, Output
from waystation.console.routes.operations import Operations
from waystation.console.routes.pages import Pages
from waystation.console.routes.queues import Queues
from waystation.console.routes.rooms import RoomRoutes
from waystation.console.routes.searching import Searching
from waystation.console.routes.webhooks import HookRoutes
from waystation.core.http import openapi
from waystation.core.http.addresses import networks
from waystation.core.http.endpoints import Table, endpoint, offered
from waystation.core.http.exchange import (
    Answer,
    Receive,
    Request,
    Scope,
    Send,
    SlowBodies,
    lifespan,
    problem_answer,
    reported,
    request_of,
)
from waystation.core.operators.oidc import Provider
from waystation.core.operators.routes import OperatorRoutes
from waystation.core.store.connection import Store

LONGEST_PATH = 4096


class App:
    """Everything the console answers over HTTP."""

    def __init__(
        self,
        store: Store,
        options: ConsoleOptions | None = None,
        *,
        provider: Provider | None = None,
    ) -> None:
        self.console = Console(store, options or ConsoleOptions())
        console = self.console
        self._trusted = networks(console.options.trusted_proxies, "trusted_proxies")
        self._slow = SlowBodies()
        host = provider.host if provider else ""
        self.table = Table(
            [
                *offered(Queues(console), Jobs(console), Live(console), group="queues"),
                *offered(Output(console), group="queues"),
                *offered(Failures(console), Searching(console), group="failures and search"),
                *offered(HistoryRoutes(console), group="history"),
                *offered(RoomRoutes(console), group="rooms"),
                *offered(HookRoutes(console), group="webhooks"),
                *offered(Operations(console, provider=host), self, group="operations"),
                *offered(OperatorRoutes(console.operators, console.cookies), group="operators"),
                *offered(Pages(console, provider), group="pages"),
            ]
        )
        self.described = openapi.document(self.table, title="waystation console")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            await (await self._answer(scope, receive)).send(send)
        elif scope["type"] == "lifespan":
            await lifespan(receive, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        request = request_of(scope, receive, self._trusted, self._slow)
        try:
            # Queues and jobs may have a slash in their names, so the path is split before it is
            # decoded.
            found, slots = self.table.find(request.method, _raw_path(scope)[:LONGEST_PATH])
            request.slots = {name: unquote(value) for name, value in slots.items()}
            given = await found.handler(request)
        except Exception as error:  # the last place where a mistake can be logged
            return problem_answer(*reported(error))
        if request.method == "HEAD" and type(given) is Answer:
            return Answer(given.status, b"", given.kind, given.headers)
        return given

    @endpoint("GET /openapi.json")
    async def describe(self, request: Request) -> Answer:
        """The OpenAPI document."""
        return Answer(200, self.described, headers=[(b"cache-control", b"public, max-age=60")])

    async def close(self) -> None:
        """Stop what was started here."""
        await self.console.redrives.close()
        await self.console.bulks.close()
        await self.console.dispatcher.close()


def _raw_path(scope: Scope) -> str:
    raw = scope.get("raw_path")
    if not raw:
        return quote(scope["path"])
    return raw.partition(b"?")[0].decode("latin-1")


PARTS: dict[str, tuple[type, ...]] = {
    "Queues": (Queues,),
    "Jobs": (Jobs, Searching),
    "Failures": (Failures,),
    "The history": (HistoryRoutes,),
    "Live changes": (Live, Output),
    "Waiting rooms": (RoomRoutes,),
    "Webhooks": (HookRoutes,),
    "The store and the console": (Operations, App),
    "Operators": (OperatorRoutes,),
    "Pages": (Pages,),
}
_INTRO = """What the console answers. `/openapi.json` says the same, field by field.

*Needs* is the role of whoever asks: viewer, operator or admin; each may do what those before it
may. With `console.sign_in` a program shows its key as `Authorization: Bearer`, a browser the cookie
of its sign-in. Without it, only this machine is answered, in the role of `console.local_role`.
Every error is answered as `application/problem+json`, with one name for it in `code`.

`product` is bullmq, routing or files; names and ids in a path are percent-encoded, slashes
included."""


def page() -> str:
    """The page as Markdown."""
    rows = [
        f"| `{name}` | {each.scope} | {each.summary}{_CONFIRMED if each.confirmed else ''} |"
        for name, each in ACTIONS.items()
    ]
    actions = ["## Actions", "", "| action | needs | what it does |", "|---|---|---|", *rows]
    return openapi.page("HTTP of the console", _INTRO, PARTS) + "\n" + "\n".join(actions) + "\n"


_CONFIRMED = " `confirm` must be the name of the queue."
