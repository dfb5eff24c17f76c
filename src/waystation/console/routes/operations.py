"""Endpoints for those who operate: the store, routing's coverage, the audit log, health."""

import time
from typing import Any

import msgspec

from waystation.console.context import Console
from waystation.console.products.queue import ConsoleQueue
from waystation.console.products.routing import RoutingQueue
from waystation.console.routes import calls
from waystation.console.routes.calls import ROOT, Call, ConsoleRoutes, console_endpoint
from waystation.console.store_facts import StoreFacts
from waystation.core.errors import StoreError
from waystation.core.http.endpoints import endpoint
from waystation.core.http.exchange import Answer, Request, answer, whole
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


class Operations(ConsoleRoutes):
    """Everything about the console and the store itself."""

    def __init__(self, console: Console, *, provider: str = "") -> None:
        super().__init__(console)
        self._provider = provider

    @endpoint(f"GET {ROOT}/sign-in", gives={200: Ways})
    async def ways(self, request: Request) -> Answer:
        """How to sign in here."""
        return answer(Ways(sign_in=self.console.options.sign_in, provider=self._provider))

    @endpoint(f"GET {ROOT}/session", gives={200: Session}, scope="viewer")
    async def session(self, request: Request) -> Answer:
        """Who asks, and what they may do."""
        who = await self.console.known(request)
        return answer(Session(name=who.name, role=who.role))

    @console_endpoint(f"GET {ROOT}/store", "viewer")
    async def store(self, call: Call) -> StoreFacts:
        """Memory, load and slow commands of the store, and the memory of each queue."""
        await self.console.sampler.overview()
        return await self.console.store_view.facts(self.console.directory.every())

    @console_endpoint(f"GET {ROOT}/coverage", "viewer")
    async def coverage(self, call: Call) -> Coverage:
        """Waiting jobs of routing by their needs, the workers that fit, and why none runs them."""
        return Coverage(covered=await call.of_each_queue(_covered))

    @console_endpoint(f"GET {ROOT}/audit", "operator", query={"limit": calls.PAGE["limit"]})
    async def audit(self, call: Call) -> AuditLog:
        """Who did what, the latest first."""
        limit = whole(call.request, "limit", 100, least=1, most=calls.MOST_PAGE)
        return await self.console.operators.audit(limit)

    @endpoint("GET /healthz")
    async def live(self, request: Request) -> Answer:
        """Liveness of the process."""
        return answer({"status": "alive"})

    @endpoint("GET /readyz", fails=(503,))
    async def ready(self, request: Request) -> Answer:
        """Readiness: whether the store answers."""
        began = time.perf_counter()
        try:
            await self.console.store.check()
        except StoreError:
            return answer({"ready": False}, 503)
        took_ms = round((time.perf_counter() - began) * 1000, 3)
        health: dict[str, Any] = {"ready": True, "took_ms": took_ms}
        return answer(health)


async def _covered(queue: ConsoleQueue) -> list[Covered]:
    return await queue.coverage() if isinstance(queue, RoutingQueue) else []
