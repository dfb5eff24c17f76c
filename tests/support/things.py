"""One of each public thing that acts on a store, by package, for laws about every method."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from waystation import bullmq, files, routing, sync, tasks, waitingroom
from waystation.console.webhooks import Hooks
from waystation.core.clock import SystemClock
from waystation.core.operators.operators import Operator, Operators
from waystation.core.operators.roles import Role

PREFIX = "{shop}"
"""With a hash tag, without which a cluster takes no queue."""


async def echo(job: Any) -> Any:
    return job.data


@asynccontextmanager
async def bullmq_things(url: str) -> AsyncGenerator[dict[str, Any]]:
    async with (
        bullmq.Queue("mail", url, prefix=PREFIX) as queue,
        bullmq.FlowProducer(url, prefix=PREFIX) as flows,
        bullmq.QueueEvents("mail", url, prefix=PREFIX) as events,
        bullmq.QueueEventsProducer("mail", url, prefix=PREFIX) as producer,
        bullmq.ManualWorker("mail", url, prefix=PREFIX) as manual,
    ):
        job = await queue.add("a")
        parts = (queue.schedulers, queue.limits, queue.dead_letters)
        worker = bullmq.Worker("mail", echo, url, prefix=PREFIX)
        things = (queue, *parts, job, flows, events, producer, manual, worker)
        yield {type(each).__name__: each for each in things}


@asynccontextmanager
async def sync_things(url: str) -> AsyncGenerator[dict[str, Any]]:
    with (
        sync.Queue("mail", url, prefix=PREFIX) as queue,
        sync.FlowProducer(url, prefix=PREFIX) as flows,
        sync.QueueEvents("mail", url, prefix=PREFIX) as events,
    ):
        parts = (queue.schedulers, queue.limits, queue.dead_letters)
        things = (queue, *parts, flows, events)
        yield {"Job": queue.add("a"), **{type(each).__name__: each for each in things}}


@asynccontextmanager
async def tasks_things(url: str) -> AsyncGenerator[dict[str, Any]]:
    async with tasks.Tasks(url, prefix=PREFIX) as app:
        yield {"Tasks": app}


@asynccontextmanager
async def routing_things(url: str) -> AsyncGenerator[dict[str, Any]]:
    async with routing.Queue(url, prefix=PREFIX) as queue:
        await queue.add("a")
        worker = routing.Worker({"a": echo}, url, prefix=PREFIX)
        things = (queue, queue.dead_letters, queue.limits, queue.schedules, worker)
        yield {type(each).__name__: each for each in things}


@asynccontextmanager
async def files_things(url: str) -> AsyncGenerator[dict[str, Any]]:
    async with files.Queue(url, prefix=PREFIX) as queue:
        worker = files.Worker(echo, url, prefix=PREFIX)
        things = (queue, queue.dead_letters, worker, files.Producer(queue))
        yield {type(each).__name__: each for each in things}


@asynccontextmanager
async def room_things(url: str) -> AsyncGenerator[dict[str, Any]]:
    async with waitingroom.Room("sale", url) as room:
        await room.open()
        made = ("Control", "Codes", "Lottery", "Schedule", "Alarms", "Following")
        things = [getattr(waitingroom, name)(room) for name in made]
        yield {"Room": room, **{type(each).__name__: each for each in things}}


@asynccontextmanager
async def core_things(url: str) -> AsyncGenerator[dict[str, Any]]:
    async with await bullmq.open_store(url) as store:
        operators, hooks = Operators(store, SystemClock()), Hooks(store)
        await operators.issue("ann", Role.ADMIN)
        yield {"Operators": operators, "Hooks": hooks}


OPENED: dict[str, Callable[[str], Any]] = {
    "bullmq": bullmq_things,
    "sync": sync_things,
    "tasks": tasks_things,
    "routing": routing_things,
    "files": files_things,
    "waitingroom": room_things,
    "core": core_things,
}
KNOWN: dict[Any, Any] = {
    waitingroom.FollowOptions: waitingroom.FollowOptions(url="http://localhost"),
    bullmq.ChildResult: bullmq.ChildResult("1", "mail", "a", None, None),
    bullmq.Job: bullmq.Job("1", {}, None),
    "store": None,
    "schedule": bullmq.Schedule(every=60),
    "priority": "low",
    "place": waitingroom.Place("{sale}:x", "y"),
    "request": waitingroom.JoinRequest(key="k", secret="s"),
    "event": waitingroom.ScheduledEvent(id="x", starts_ms=1, ends_ms=2),
    "role": Role.VIEWER,
    "who": Operator(name="ann", role=Role.ADMIN, expires_ms=0),
    "tree": bullmq.FlowNode(name="a", queue="mail"),
}
"""Arguments that cannot be made of a type alone, by name or type."""
