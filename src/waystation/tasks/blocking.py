"""Tasks for code without an event loop: `tasks.sync`."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from waystation.bullmq import FlowNode, Schedule
from waystation.sync.bound import FlowJob
from waystation.sync.flows import FlowProducer
from waystation.sync.queue import Queue
from waystation.tasks.task import (
    BlockingTaskFlow,
    BlockingTaskJob,
    Call,
    CallNode,
    by_their_queues,
)

if TYPE_CHECKING:
    from waystation.tasks.tasks import Tasks

R = TypeVar("R")


class BlockingTasks:
    """A collection of tasks for code that waits, in any thread and after any fork: `tasks.sync`."""

    def __init__(self, tasks: "Tasks") -> None:
        """Internal: `Tasks` makes it."""
        self._tasks = tasks
        self._queues: dict[str, Queue] = {}
        self._flows: dict[str, FlowProducer] = {}
        """The one producer of flows, by its prefix."""

    def add_many(self, calls: Iterable[Call[R]]) -> list[BlockingTaskJob[R]]:
        """Add a job for each call, whatever their tasks; those of one queue go together."""
        all_calls, by_queue = by_their_queues(calls)
        new_jobs = [each.new_job() for each in all_calls]
        added: dict[int, BlockingTaskJob[R]] = {}
        for name, places in by_queue.items():
            jobs = self.queue(name).add_many([new_jobs[each] for each in places])
            for place, job in zip(places, jobs, strict=True):
                added[place] = BlockingTaskJob(all_calls[place].task, job)
        return [added[place] for place in range(len(all_calls))]

    @overload
    def add_flow(  # pyright: ignore[reportOverlappingOverload]
        self, tree: CallNode[R]
    ) -> BlockingTaskFlow[R]: ...
    @overload
    def add_flow(self, tree: FlowNode) -> FlowJob: ...
    def add_flow(self, tree: FlowNode) -> BlockingTaskFlow[Any] | FlowJob:
        """Add a tree of calls, which `call.after(…)` makes, all or nothing.

        The result of what is returned is that of the call at the top.
        """
        tasks = self._tasks
        flows = FlowProducer(tasks.url, prefix=tasks.prefix, payloads=tasks.payloads)
        # As with queues: what is made in vain has no connection.
        added = self._flows.setdefault(tasks.prefix, flows).add(tree)
        if not isinstance(tree, CallNode):
            return added
        return BlockingTaskFlow(cast("CallNode[Any]", tree).task, added)

    def schedule(self, scheduler_id: str, schedule: Schedule, call: Call[Any]) -> str:
        """Add a call again and again; returns the id of the next job.

        Calling it again with the same id changes the schedule, so every process may do so.
        """
        job = call.new_job()
        return self.queue(call.task.queue).schedulers.upsert(
            scheduler_id, schedule, name=job.name, data=job.data, options=job.options
        )

    def queue(self, name: str) -> Queue:
        """One of the queues, for everything else that can be done with it."""
        if (found := self._queues.get(name)) is not None:
            return found
        tasks = self._tasks
        queue = Queue(name, tasks.url, prefix=tasks.prefix, payloads=tasks.payloads)
        # Whoever comes second in a race has made an object, but no connection.
        return self._queues.setdefault(name, queue)

    def close(self) -> None:
        """Close the connections."""
        for opened in (self._queues, self._flows):
            while opened:
                opened.popitem()[1].close()
