"""Endpoints for those who operate: the store, routing's coverage, the audit log, health."""

import time
from typing import Any

import msgspec

from waystation.console.context import Console
from waystation.console.measures.store_facts import StoreFacts
from waystation.console.products.queue import alone
from waystation.console.products.routing import RoutingQueue
from waystation.console.routes import queries
from waystation.console.routes.queues import ROOT
from waystation.core.errors import StoreError
from waystation.core.http.endpoints import endpoint
from waystation.core.http.exchange import Answer, Request, answer
from waystation.core.operators.operators import AuditLog
from waystation.routing import Covered


class Ways(msgspec.Struct, kw_only=True):
    """How to sign in."""

    sign_in: bool
    """Whether one has to."""
    provider: str
    """The host of the identity provider; empty when there is none."""


class Session(msgspec.Struct, kw_only=True):
    """Who asks, and what they may do."""

    name: str
    role: str


class Coverage(msgspec.Struct, kw_only=True):
    """Waiting jobs of routing by their needs."""

    covered: list[Covered]


class Operations:
    """Everything about the console and the store itself."""

    def __init__(self, console: Console, *, provider: str = "") -> None:
        self._console = console
        self._provider = provider

    @endpoint(f"GET {ROOT}/sign-in", gives={200: Ways})
    async def ways(self, request: Request) -> Answer:
        """How to sign in here."""
        return answer(Ways(sign_in=self._console.options.sign_in, provider=self._provider))

    @endpoint(f"GET {ROOT}/session", gives={200: Session}, scope="viewer")
    async def session(self, request: Request) -> Answer:
        """Who asks, and what they may do."""
        who = await self._console.known(request)
        return answer(Session(name=who.name, role=who.role))

    @endpoint(f"GET {ROOT}/store", gives={200: StoreFacts}, scope="viewer")
    async def store(self, request: Request) -> Answer:
        """Memory, load and slow commands of the store, and the memory of each queue."""
        await self._console.require(request, "viewer")
        await self._console.sampler.overview()
        queues = self._console.directory.every()
        return answer(await self._console.store_view.facts(queues))

    @endpoint(f"GET {ROOT}/coverage", gives={200: Coverage}, scope="viewer")
    async def coverage(self, request: Request) -> Answer:
        """Waiting jobs of routing by their needs, the workers that fit, and why none runs them."""
        await self._console.require(request, "viewer")
        await self._console.sampler.overview()
        found = list[Covered]()
        for queue in self._console.directory.every():
            if isinstance(queue, RoutingQueue):
                with alone(queue.product, queue.name):
                    found += await queue.coverage()
        return answer(Coverage(covered=found))

    @endpoint(
        f"GET {ROOT}/audit",
        gives={200: AuditLog},
        query={"limit": queries.PAGE["limit"]},
        scope="operator",
    )
    async def audit(self, request: Request) -> Answer:
        """Who did what, the latest first."""
        await self._console.require(request, "operator")
        limit = queries.whole(request, "limit", 100, least=1, most=queries.MOST_PAGE)
        return answer(await self._console.operators.audit(limit))

    @endpoint("GET /healthz")
    async def live(self, request: Request) -> Answer:
        """Liveness of the process."""
        return answer({"status": "alive"})

    @endpoint("GET /readyz", fails=(503,))
    async def ready(self, request: Request) -> Answer:
        """Readiness: whether the store answers."""
        began = time.perf_counter()
        try:
            await self._console.store.check()
        except StoreError:
            return answer({"ready": False}, 503)
        took_ms = round((time.perf_counter() - began) * 1000, 3)
        health: dict[str, Any] = {"ready": True, "took_ms": took_ms}
        return answer(health)
