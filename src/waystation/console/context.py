"""The parts of the console, made once for each process."""

from typing import Any

from waystation.console.actions.failures import FailureGroups, Groups
from waystation.console.actions.runs import Bulk, Redrives, Runs
from waystation.console.directory import Directory
from waystation.console.measures import Sampler
from waystation.console.options import ConsoleOptions
from waystation.console.past.history import History
from waystation.console.search import Search
from waystation.console.store_facts import StoreView
from waystation.console.troubles import Troubles
from waystation.console.webhooks import JobDispatcher
from waystation.core.clock import SystemClock
from waystation.core.http.addresses import networks
from waystation.core.http.exchange import Cookies, Request, is_from_here, require_own_site
from waystation.core.http.pace import Pace
from waystation.core.http.problems import Code, Problem
from waystation.core.identity import worker_name
from waystation.core.operators.operators import Operator, Operators
from waystation.core.store.connection import Store
from waystation.core.webhooks.delivery import Sender
from waystation.waitingroom.rooms import Rooms

LOCAL = "this machine"
"""The name of whoever asks from this machine while nobody has to sign in."""
_HERE = ("localhost", "127.0.0.1", "[::1]")


class Console:
    """The store, its queues, and who may do what with them."""

    def __init__(self, store: Store, options: ConsoleOptions) -> None:
        self.store = store
        self.options = options
        self.clock = SystemClock()
        self.cookies = Cookies("wsc_", secure=options.secure_cookies)
        self.operators = Operators(
            store,
            self.clock,
            cookie=self.cookies.name("o"),
            floor_s=options.change_floor_s,
            guess_s=options.guess_floor_s,
        )
        self.directory = Directory(store, options)
        self.sampler = Sampler(
            store, self.directory, every_s=options.every_s, troubles=Troubles(store)
        )
        self.rooms = Rooms(store)
        self.failures = FailureGroups()
        self.redrives = Redrives()
        self.bulks = Runs[Bulk]()
        self.search = Search()
        self.store_view = StoreView(store)
        self.history = History(options.history)
        self.dispatcher = JobDispatcher(
            store,
            self.directory,
            Sender(networks(options.webhook_networks, "webhook_networks"), clock=self.clock),
            owner=worker_name(),
        )
        self._changes = Pace(every_s=options.change_floor_s, burst=60, clock=self.clock)

    async def require(self, request: Request, scope: str, about: str | None = None) -> Operator:
        """Who asks; a Problem unless they may do this."""
        if self.options.sign_in:
            return await self.operators.require(request, scope, about)
        who = self._local(request)
        if not who.may(scope, about):
            raise Problem(
                403,
                Code.NOT_ALLOWED,
                f"this console was started for the role {who.role}; --role {scope} allows it",
            )
        return who

    async def require_any(self, request: Request, scope: str) -> Operator:
        """Who asks; a Problem unless they may do this to one queue at least."""
        if self.options.sign_in:
            return await self.operators.require_any(request, scope)
        return await self.require(request, scope)

    async def known(self, request: Request) -> Operator:
        """Who asks, whatever they may do."""
        if self.options.sign_in:
            return await self.operators.known(request)
        return self._local(request)

    def _local(self, request: Request) -> Operator:
        """Whoever asks from this machine; nobody else may while there is no sign-in."""
        host = request.host.rpartition(":")[0] if _has_port(request.host) else request.host
        # A page elsewhere whose name was made to lead here still sends that name.
        if not is_from_here(request) or host not in _HERE:
            raise Problem(403, Code.NOT_ALLOWED, "without a sign-in only this machine may ask")
        if request.method not in ("GET", "HEAD"):
            require_own_site(request)
            self._changes.require(request.address)
        return Operator(name=LOCAL, role=self.options.local_role)

    async def failing(self, product: str = "", name: str = "") -> Groups:
        """Failed jobs of one queue, or of all, grouped by their errors."""
        if name:
            return await self.failures.of([await self.directory.find(product, name)])
        overview = await self.sampler.overview()
        failed = {(q.product, q.name) for q in overview.queues if q.points[-1].failed}
        every = self.directory.every()
        return await self.failures.of([q for q in every if (q.product, q.name) in failed])

    async def note(self, who: Operator, action: str, about: str, *, after: Any) -> None:
        """Write down who did what."""
        await self.operators.note(who, action, about, before=None, after=after)


def _has_port(host: str) -> bool:
    return ":" in host and not host.endswith("]")
