"""Endpoints of queues: the overview, one queue, and what can be done to it."""

from typing import Any

import msgspec

from waystation.console.actions.kinds import ACTIONS, Act, Acted
from waystation.console.actions.taking import take
from waystation.console.measures import Overview, Point, QueueSample
from waystation.console.products.queue import ConsoleQueue
from waystation.console.products.views import SchedulerView, Tenants, WorkerView
from waystation.console.routes.calls import QUEUE, ROOT, Call, ConsoleRoutes, console_endpoint
from waystation.console.troubles import Trouble
from waystation.core.events import Product
from waystation.core.http.endpoints import endpoint
from waystation.core.http.exchange import NO_STORE, Answer, Request, answer
from waystation.core.http.problems import Code, Problem
from waystation.core.operators.operators import Operator

MOST_BODY = 262_144


class QueueDetail(msgspec.Struct, kw_only=True):
    """One queue."""

    product: str
    name: str
    counts: dict[str, int]
    paused: bool
    states: tuple[str, ...]
    failed: str
    """The state of jobs that failed for good."""
    actions: list[str]
    """What whoever asks may do to it."""
    about: dict[str, Any]
    points: list[Point]
    trouble: Trouble | None
    """What somebody should look at."""


class WorkerList(msgspec.Struct, kw_only=True):
    """Workers."""

    workers: list[WorkerView]


class SchedulerList(msgspec.Struct, kw_only=True):
    """Schedulers."""

    schedulers: list[SchedulerView]


class Queues(ConsoleRoutes):
    """All queues and one."""

    @console_endpoint(f"GET {ROOT}/overview", "viewer", anywhere=True, gives={200: Overview})
    async def overview(self, call: Call) -> Answer:
        """The queues and rooms that one may see: counts, rates, and what is wrong with them."""
        if call.who.may("viewer", None):
            return Answer(200, await self.console.sampler.overview_json(), headers=[NO_STORE])
        overview = await self.console.sampler.overview()
        seen = [each for each in overview.queues if may_see(call.who, each)]
        return answer(msgspec.structs.replace(overview, queues=seen, left_out=0))

    @console_endpoint(f"GET {QUEUE}", "viewer")
    async def one(self, call: Call) -> QueueDetail:
        """One queue: counts, limits, forecast and its latest samples."""
        queue = await call.queue()
        levels = await queue.levels()
        return QueueDetail(
            product=queue.product,
            name=queue.name,
            counts=levels.counts,
            paused=levels.paused,
            states=queue.states,
            failed=queue.failed,
            actions=[name for name in queue.actions if _may(call.who, queue, name)],
            about=await queue.about(),
            points=self.console.sampler.points(queue.product, queue.name),
            trouble=self.console.sampler.trouble(queue.product, queue.name),
        )

    @console_endpoint(f"GET {QUEUE}/tenants", "viewer")
    async def tenants(self, call: Call) -> Tenants:
        """Who shares a queue by the groups of its jobs: shares lately, what waits, limits."""
        return await (await call.queue()).tenants()

    @console_endpoint(f"GET {QUEUE}/workers", "viewer")
    async def workers(self, call: Call) -> WorkerList:
        """The workers of a queue."""
        return WorkerList(workers=await (await call.queue()).workers())

    @console_endpoint(f"GET {QUEUE}/schedulers", "viewer")
    async def schedulers(self, call: Call) -> SchedulerList:
        """The schedulers of a queue."""
        return SchedulerList(schedulers=await (await call.queue()).schedulers())

    @console_endpoint(f"GET {ROOT}/workers", "viewer")
    async def all_workers(self, call: Call) -> WorkerList:
        """The workers of all queues."""
        return WorkerList(workers=await call.of_each_queue(lambda queue: queue.workers()))

    @console_endpoint(f"GET {ROOT}/schedulers", "viewer")
    async def all_schedulers(self, call: Call) -> SchedulerList:
        """The schedulers of all queues."""
        return SchedulerList(schedulers=await call.of_each_queue(lambda queue: queue.schedulers()))

    @endpoint(f"POST {QUEUE}/actions/{{action}}", takes=Act, gives={200: Acted}, scope="operator")
    async def act(self, request: Request) -> Answer:
        """Take an action on a queue, its jobs or its schedulers, or count what it would concern."""
        product, place, name = (request.slots[each] for each in ("product", "queue", "action"))
        known = ACTIONS.get(name)
        scope = known.scope if known else "operator"
        who = await self.console.require(request, scope, f"{product}/{place}")
        queue = await self.console.directory.find(product, place)
        if known is None:
            raise Problem(404, Code.NOT_FOUND, f"{queue.product} has no such action")
        asked = await request.read(Act, MOST_BODY)
        return answer(await take(self.console, who, queue, name, asked))


def may_see(who: Operator, queue: ConsoleQueue | QueueSample) -> bool:
    """Whether somebody may look at a queue or a room."""
    is_room = queue.product == Product.WAITINGROOM
    return who.may("viewer", queue.name if is_room else f"{queue.product}/{queue.name}")


def _may(who: Operator, queue: ConsoleQueue, action: str) -> bool:
    return who.may(ACTIONS[action].scope, f"{queue.product}/{queue.name}")
