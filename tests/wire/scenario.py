"""Scripted scenarios as data, so that Node's BullMQ and ours can be put through the same one.

Options, arguments and job data are BullMQ's JSON. What a worker does with a job stands in the job
(`data["do"]`, see handlers.mjs). Verbs are our method names; a side translates what it must.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

Json: TypeAlias = Any
Options: TypeAlias = Mapping[str, Json]

# BullMQ writes no attempts by default, our producer says three: scenarios always say.
ONE_TRY: Options = {"attempts": 1}

# Node's worker signs a job only when it has a name, ours always has one.
NAMED: Options = {"name": "anna"}


@dataclass(frozen=True)
class Job:
    """A job to be added."""

    name: str
    data: Json = field(default_factory=dict[str, Json])
    options: Options = field(default_factory=dict[str, Json])


@dataclass(frozen=True)
class Tree:
    """A job of a flow, with those it waits for."""

    queue: str
    job: Job
    children: Sequence["Tree"] = ()


@dataclass(frozen=True)
class Add:
    """Add jobs one by one."""

    queue: str
    jobs: Sequence[Job]


@dataclass(frozen=True)
class AddMany:
    """Add jobs in one call."""

    queue: str
    jobs: Sequence[Job]


@dataclass(frozen=True)
class AddFlow:
    """Add a whole tree."""

    tree: Tree


@dataclass(frozen=True)
class Work:
    """Run one worker until so many attempts have come to an outcome, then close it idle."""

    queue: str
    outcomes: int
    options: Options = field(default_factory=dict[str, Json])


@dataclass(frozen=True)
class Abandon:
    """Let a worker begin so many jobs and go without ending them."""

    queue: str
    jobs: int
    options: Options = field(default_factory=dict[str, Json])


@dataclass(frozen=True)
class Rest:
    """Let time pass, so that what expires has expired."""

    ms: int


@dataclass(frozen=True)
class OnQueue:
    """Call a method of the queue."""

    queue: str
    verb: str
    args: Sequence[Json] = ()


@dataclass(frozen=True)
class OnJob:
    """Call a method of one job."""

    queue: str
    job_id: str
    verb: str
    args: Sequence[Json] = ()


Step: TypeAlias = Add | AddMany | AddFlow | Work | Abandon | Rest | OnQueue | OnJob


class Side(Protocol):
    """One implementation of BullMQ on one database."""

    async def add(self, queue: str, job: Job) -> None: ...
    async def add_many(self, queue: str, jobs: Sequence[Job]) -> None: ...
    async def add_flow(self, tree: Tree) -> None: ...
    async def work(self, queue: str, *, outcomes: int, options: Options) -> None: ...
    async def abandon(self, queue: str, *, jobs: int, options: Options) -> None: ...
    async def on_queue(self, queue: str, verb: str, args: Sequence[Json]) -> None: ...
    async def on_job(self, queue: str, job_id: str, verb: str, args: Sequence[Json]) -> None: ...


async def perform(side: Side, steps: Sequence[Step]) -> None:
    """Put one side through a scenario."""
    for step in steps:
        await _perform(side, step)


async def _perform(side: Side, step: Step) -> None:
    match step:
        case Add(queue, jobs):
            for job in jobs:
                await side.add(queue, _with_tries(job))
        case AddMany(queue, jobs):
            await side.add_many(queue, [_with_tries(job) for job in jobs])
        case AddFlow(tree):
            await side.add_flow(_tree_with_tries(tree))
        case Work(queue, outcomes, options):
            await side.work(queue, outcomes=outcomes, options={**NAMED, **options})
        case Abandon(queue, jobs, options):
            await side.abandon(queue, jobs=jobs, options={**NAMED, "concurrency": jobs, **options})
        case Rest(ms):
            await asyncio.sleep(ms / 1000)
        case OnQueue(queue, verb, args):
            await side.on_queue(queue, verb, args)
        case OnJob(queue, job_id, verb, args):
            await side.on_job(queue, job_id, verb, args)


def _with_tries(job: Job) -> Job:
    return Job(job.name, job.data, {**ONE_TRY, **job.options})


def _tree_with_tries(tree: Tree) -> Tree:
    children = [_tree_with_tries(child) for child in tree.children]
    return Tree(tree.queue, _with_tries(tree.job), children)
