"""Endpoints of jobs: lists, one job, its flow, and adding jobs."""

from typing import Annotated, Any

import msgspec

from waystation.console.context import Console
from waystation.console.products.bullmq import BullmqQueue
from waystation.console.products.queue import ConsoleQueue
from waystation.console.products.routing import RoutingQueue
from waystation.console.products.views import FlowNode, JobDetail, JobView
from waystation.console.routes import queries
from waystation.console.routes.queues import QUEUE
from waystation.console.why import Answer as Why
from waystation.console.why import of_history
from waystation.core import codec
from waystation.core.errors import NotFound
from waystation.core.http.endpoints import endpoint, stated
from waystation.core.http.exchange import Answer, Request, answer
from waystation.core.http.problems import Code, Problem
from waystation.core.operators.operators import Operator


class JobList(msgspec.Struct, kw_only=True):
    """A page of jobs."""

    state: str
    offset: int
    total: int
    """How many jobs are in this state."""
    jobs: list[JobView]


class NewJob(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A job to be added."""

    name: Annotated[str, stated(minLength=1, maxLength=512)]
    data: Any = None
    options: dict[str, Any] = {}
    """As in Python: attempts, delay, priority, job_id, …"""


class Jobs:
    """The jobs of a queue."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @endpoint(
        f"GET {QUEUE}/jobs",
        gives={200: JobList},
        query={
            "state": {"type": "string"},
            "order": {"type": "string", "enum": ["newest", "oldest"]},
            **queries.PAGE,
        },
        scope="viewer",
    )
    async def some(self, request: Request) -> Answer:
        """A page of the jobs in a state."""
        queue, _ = await self._console.queue(request, "viewer")
        state = queries.word(request, "state", queue.states, queue.states[0])
        order = queries.word(request, "order", ("newest", "oldest"), _usual_order(queue, state))
        offset, limit = queries.page(request)
        levels = await queue.levels()
        jobs = await queue.jobs(state, offset=offset, limit=limit, newest_first=order == "newest")
        total = levels.counts.get(state, 0)
        return answer(JobList(state=state, offset=offset, total=total, jobs=jobs))

    @endpoint(f"POST {QUEUE}/jobs", takes=NewJob, gives={201: JobView}, scope="operator")
    async def add(self, request: Request) -> Answer:
        """Add a job, from any language."""
        queue, who = await self._console.queue(request, "operator")
        if not isinstance(queue, BullmqQueue | RoutingQueue):
            raise Problem(404, Code.NOT_FOUND, f"{queue.product} takes no jobs over HTTP")
        asked = await request.read(NewJob, codec.PAYLOAD_LIMIT)
        job = await queue.add(asked.name, asked.data, asked.options)
        after = {"id": job.id, "name": job.name}
        await self._console.note(who, "add", f"{queue.product}/{queue.name}", after=after)
        return answer(job, 201)

    @endpoint(f"GET {QUEUE}/jobs/{{id}}", gives={200: JobDetail}, scope="viewer")
    async def one(self, request: Request) -> Answer:
        """Everything about one job."""
        queue, who = await self._console.queue(request, "viewer")
        job = await queue.job(request.slots["id"])
        if job is None:
            raise NotFound("there is no such job")
        if not who.may("operator", f"{queue.product}/{queue.name}"):
            job.actions = []
        return answer(job)

    @endpoint(f"GET {QUEUE}/why", gives={200: Why}, scope="viewer")
    async def why_queue(self, request: Request) -> Answer:
        """Why a queue moves, or does not, in one sentence."""
        queue, _ = await self._console.queue(request, "viewer")
        return _explained(await queue.why())

    @endpoint(f"GET {QUEUE}/jobs/{{id}}/why", gives={200: Why}, scope="viewer")
    async def why(self, request: Request) -> Answer:
        """Why a job is where it is, in one sentence; also for a job that is gone."""
        queue, _ = await self._console.queue(request, "viewer")
        id = request.slots["id"]
        # Of the other products the history's queue is the type or the priority, not the namespace.
        name = queue.name if isinstance(queue, BullmqQueue) else ""
        found = await queue.why(id)
        found = found or await of_history.job(
            self._console.history, id, product=queue.product, queue=name
        )
        return _explained(found)

    @endpoint(f"GET {QUEUE}/jobs/{{id}}/flow", gives={200: FlowNode}, scope="viewer")
    async def flow(self, request: Request) -> Answer:
        """The job with its children, some levels down."""
        queue, who = await self._console.queue(request, "viewer")
        id = request.slots["id"]
        found = await queue.flow(id) if isinstance(queue, BullmqQueue) else None
        if found is None:
            raise NotFound("there is no flow of this job")
        return answer(_seen_by(who, found))


def _seen_by(who: Operator, node: FlowNode) -> FlowNode:
    """A flow without the jobs of queues that somebody may not look at."""
    children = [
        _seen_by(who, each)
        for each in node.children
        if who.may("viewer", f"{BullmqQueue.product}/{each.queue}")
    ]
    return msgspec.structs.replace(node, children=children)


def _explained(found: Why | None) -> Answer:
    if found is None:
        raise NotFound("nothing is known of it")
    return answer(found)


def _usual_order(queue: ConsoleQueue, state: str) -> str:
    return "newest" if state in ("completed", queue.failed) else "oldest"
