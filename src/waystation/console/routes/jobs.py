"""Endpoints of jobs: lists, one job, its flow, and adding jobs."""

from typing import Annotated, Any

import msgspec

from waystation.console.products.bullmq import BullmqQueue
from waystation.console.products.queue import ConsoleQueue
from waystation.console.products.routing import RoutingQueue
from waystation.console.products.views import FlowNode, JobDetail, JobView
from waystation.console.routes import calls
from waystation.console.routes.calls import QUEUE, Call, ConsoleRoutes, console_endpoint
from waystation.console.why import Answer as Why
from waystation.console.why import of_history
from waystation.core import codec
from waystation.core.errors import NotFound
from waystation.core.http.endpoints import stated
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


class Jobs(ConsoleRoutes):
    """The jobs of a queue."""

    @console_endpoint(
        f"GET {QUEUE}/jobs",
        "viewer",
        query={
            "state": {"type": "string"},
            "order": {"type": "string", "enum": ["newest", "oldest"]},
            **calls.PAGE,
        },
    )
    async def some(self, call: Call) -> JobList:
        """A page of the jobs in a state."""
        queue, request = await call.queue(), call.request
        state = calls.word(request, "state", queue.states, queue.states[0])
        order = calls.word(request, "order", ("newest", "oldest"), _usual_order(queue, state))
        offset, limit = calls.page(request)
        levels = await queue.levels()
        jobs = await queue.jobs(state, offset=offset, limit=limit, newest_first=order == "newest")
        total = levels.counts.get(state, 0)
        return JobList(state=state, offset=offset, total=total, jobs=jobs)

    @console_endpoint(f"POST {QUEUE}/jobs", "operator", status=201, most=codec.PAYLOAD_LIMIT)
    async def add(self, call: Call, asked: NewJob) -> JobView:
        """Add a job, from any language."""
        queue = await call.queue()
        if not isinstance(queue, BullmqQueue | RoutingQueue):
            raise Problem(404, Code.NOT_FOUND, f"{queue.product} takes no jobs over HTTP")
        job = await queue.add(asked.name, asked.data, asked.options)
        after = {"id": job.id, "name": job.name}
        await call.note("add", f"{queue.product}/{queue.name}", after=after)
        return job

    @console_endpoint(f"GET {QUEUE}/jobs/{{id}}", "viewer")
    async def one(self, call: Call) -> JobDetail:
        """Everything about one job."""
        job = await (await call.queue()).job(call.request.slots["id"])
        if job is None:
            raise NotFound("there is no such job")
        if not call.who.may("operator", call.about):
            job.actions = []
        return job

    @console_endpoint(f"GET {QUEUE}/why", "viewer")
    async def why_queue(self, call: Call) -> Why:
        """Why a queue moves, or does not, in one sentence."""
        return _explained(await (await call.queue()).why())

    @console_endpoint(f"GET {QUEUE}/jobs/{{id}}/why", "viewer")
    async def why(self, call: Call) -> Why:
        """Why a job is where it is, in one sentence; also for a job that is gone."""
        queue, id = await call.queue(), call.request.slots["id"]
        # Of the other products the history's queue is the type or the priority, not the namespace.
        name = queue.name if isinstance(queue, BullmqQueue) else ""
        found = await queue.why(id)
        found = found or await of_history.job(
            self.console.history, id, product=queue.product, queue=name
        )
        return _explained(found)

    @console_endpoint(f"GET {QUEUE}/jobs/{{id}}/flow", "viewer")
    async def flow(self, call: Call) -> FlowNode:
        """The job with its children, some levels down."""
        queue, id = await call.queue(), call.request.slots["id"]
        found = await queue.flow(id) if isinstance(queue, BullmqQueue) else None
        if found is None:
            raise NotFound("there is no flow of this job")
        return _seen_by(call.who, found)


def _seen_by(who: Operator, node: FlowNode) -> FlowNode:
    """A flow without the jobs of queues that somebody may not look at."""
    children = [
        _seen_by(who, each)
        for each in node.children
        if who.may("viewer", f"{BullmqQueue.product}/{each.queue}")
    ]
    return msgspec.structs.replace(node, children=children)


def _explained(found: Why | None) -> Why:
    if found is None:
        raise NotFound("nothing is known of it")
    return found


def _usual_order(queue: ConsoleQueue, state: str) -> str:
    return "newest" if state in ("completed", queue.failed) else "oldest"
