"""Endpoints of queues: the overview, one queue, and what can be done to it."""

from typing import Any

import msgspec

from waystation.console.actions.kinds import ACTIONS, Act, Acted
from waystation.console.actions.taking import take
from waystation.console.context import Console
from waystation.console.measures.sampler import Overview, Point, QueueSample
from waystation.console.products.queue import ConsoleQueue, alone
from waystation.console.products.views import SchedulerView, WorkerView
from waystation.core.http.endpoints import endpoint
from waystation.core.http.exchange import NO_STORE, Answer, Request, answer
from waystation.core.http.problems import Code, Problem
from waystation.core.operators.operators import Operator

ROOT = "/api/v1"
QUEUE = f"{ROOT}/queues/{{product}}/{{queue}}"
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


class WorkerList(msgspec.Struct, kw_only=True):
    """Workers."""

    workers: list[WorkerView]


class SchedulerList(msgspec.Struct, kw_only=True):
    """Schedulers."""

    schedulers: list[SchedulerView]


class Queues:
    """All queues and one."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @endpoint(f"GET {ROOT}/overview", gives={200: Overview}, scope="viewer")
    async def overview(self, request: Request) -> Answer:
        """The queues that one may see with their counts, rates and ages, as of the last sample."""
        who = await self._console.require_any(request, "viewer")
        if who.may("viewer", None):
            return Answer(200, await self._console.sampler.overview_json(), headers=[NO_STORE])
        overview = await self._console.sampler.overview()
        seen = [each for each in overview.queues if may_see(who, each)]
        return answer(msgspec.structs.replace(overview, queues=seen, left_out=0))

    @endpoint(f"GET {QUEUE}", gives={200: QueueDetail}, scope="viewer")
    async def one(self, request: Request) -> Answer:
        """One queue: counts, limits, forecast and its latest samples."""
        queue, who = await self._console.queue(request, "viewer")
        levels = await queue.levels()
        return answer(
            QueueDetail(
                product=queue.product,
                name=queue.name,
                counts=levels.counts,
                paused=levels.paused,
                states=queue.states,
                failed=queue.failed,
                actions=[name for name in queue.actions if _may(who, queue, name)],
                about=await queue.about(),
                points=self._console.sampler.points(queue.product, queue.name),
            )
        )

    @endpoint(f"GET {QUEUE}/workers", gives={200: WorkerList}, scope="viewer")
    async def workers(self, request: Request) -> Answer:
        """The workers of a queue."""
        queue, _ = await self._console.queue(request, "viewer")
        return answer(WorkerList(workers=await queue.workers()))

    @endpoint(f"GET {QUEUE}/schedulers", gives={200: SchedulerList}, scope="viewer")
    async def schedulers(self, request: Request) -> Answer:
        """The schedulers of a queue."""
        queue, _ = await self._console.queue(request, "viewer")
        return answer(SchedulerList(schedulers=await queue.schedulers()))

    @endpoint(f"GET {ROOT}/workers", gives={200: WorkerList}, scope="viewer")
    async def all_workers(self, request: Request) -> Answer:
        """The workers of all queues."""
        await self._console.require(request, "viewer")
        found = list[WorkerView]()
        for queue in await self._queues():
            with alone(queue.product, queue.name):
                found += await queue.workers()
        return answer(WorkerList(workers=found))

    @endpoint(f"GET {ROOT}/schedulers", gives={200: SchedulerList}, scope="viewer")
    async def all_schedulers(self, request: Request) -> Answer:
        """The schedulers of all queues."""
        await self._console.require(request, "viewer")
        found = list[SchedulerView]()
        for queue in await self._queues():
            with alone(queue.product, queue.name):
                found += await queue.schedulers()
        return answer(SchedulerList(schedulers=found))

    @endpoint(f"POST {QUEUE}/actions/{{action}}", takes=Act, gives={200: Acted}, scope="operator")
    async def act(self, request: Request) -> Answer:
        """Take an action on a queue, its jobs or its schedulers, or count what it would concern."""
        name = request.slots["action"]
        known = ACTIONS.get(name)
        queue, who = await self._console.queue(request, known.scope if known else "operator")
        if known is None:
            raise Problem(404, Code.NOT_FOUND, f"{queue.product} has no such action")
        asked = await request.read(Act, MOST_BODY)
        return answer(await take(self._console, who, queue, name, asked))

    async def _queues(self) -> list[ConsoleQueue]:
        await self._console.sampler.overview()
        return self._console.directory.every()


def may_see(who: Operator, queue: ConsoleQueue | QueueSample) -> bool:
    """Whether somebody may look at a queue."""
    return who.may("viewer", f"{queue.product}/{queue.name}")


def _may(who: Operator, queue: ConsoleQueue, action: str) -> bool:
    return who.may(ACTIONS[action].scope, f"{queue.product}/{queue.name}")
