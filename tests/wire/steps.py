"""What our worker does with a job: the steps that handlers.mjs knows, in Python.

The steps come with the job (`data["do"]`), else the job is echoed. The last value that a step gives
is the job's result.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, cast

from tests.wire.spelling import job_options, snake
from waystation.bullmq import (
    Job,
    JobDelayed,
    JobRateLimited,
    JobWaiting,
    JobWaitingForChildren,
    Parent,
    Queue,
    Unrecoverable,
    Worker,
)
from waystation.core.store.connection import Store

Json: TypeAlias = Any
Step: TypeAlias = Callable[..., Awaitable[Json]]

FIRST_START = 1


class Steps:
    """A handler for our worker; the store is where it adds children and sets limits."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def __call__(self, job: Job) -> Json:
        result: Json = None
        for name, *args in steps_of(job.data):
            step: Step = getattr(self, f"do_{snake(name)}")
            value = await step(job, *args)
            if value is not None:
                result = value
        return result

    async def do_echo(self, job: Job) -> Json:
        return job.data

    async def do_return(self, _: Job, value: Json) -> Json:
        return value

    async def do_children_values(self, job: Job) -> Json:
        return await job.children_values()

    async def do_progress(self, job: Job, value: Json) -> None:
        await job.update_progress(value)

    async def do_log(self, job: Job, text: str) -> None:
        await job.log(text)

    async def do_update_data(self, job: Job, data: Json) -> None:
        await job.update_data(data)

    async def do_extend_lock(self, job: Job, ms: int) -> None:
        await job.extend_lock(ms / 1000)

    async def do_run_for(self, _: Job, ms: int) -> None:
        await asyncio.sleep(ms / 1000)

    async def do_never(self, _: Job) -> None:
        await asyncio.Event().wait()

    async def do_throw(self, job: Job, message: str, times: float = float("inf")) -> None:
        if job.attempts_made < times:
            raise RuntimeError(message)

    async def do_unrecoverable(self, _: Job, message: str) -> None:
        raise Unrecoverable(message)

    async def do_move_to_delayed(self, job: Job, ms: int) -> None:
        if job.attempts_started == FIRST_START:
            await job.move_to_delayed(datetime.now(UTC) + timedelta(milliseconds=ms))
            raise JobDelayed

    async def do_move_to_wait(self, job: Job) -> None:
        if job.attempts_started == FIRST_START:
            await job.move_to_wait()
            raise JobWaiting

    async def do_rate_limit(self, job: Job, ms: int) -> None:
        if job.attempts_started == FIRST_START:
            async with Queue(job.queue_name, self._store) as queue:
                await queue.limits.rate_limit(ms / 1000)
            raise JobRateLimited

    async def do_add(self, job: Job, name: str, data: Json, options: Mapping[str, Json]) -> None:
        """Add to the job's own queue while it runs."""
        async with Queue(job.queue_name, self._store) as queue:
            await queue.add(name, data, job_options(options))

    async def do_wait_for_children(self, job: Job, children: Sequence[Json] = ()) -> None:
        if job.attempts_started == FIRST_START:
            parent = Parent(job.id, f"bull:{job.queue_name}")
            for child in children:
                async with Queue(child["queue"], self._store) as queue:
                    options = job_options(child.get("opts", {}))
                    await queue.add(child["name"], child.get("data", {}), options, parent=parent)
        if await job.move_to_waiting_children():
            raise JobWaitingForChildren


def one_start(store: Store, **options: Any) -> Worker:
    """A worker of ours on the queue `q` that takes one job and no more."""

    def take_no_more(_: Job) -> None:
        worker.pause()

    worker = Worker("q", Steps(store), store, **options)
    worker.on("active", take_no_more)
    return worker


def steps_of(data: Json) -> Sequence[Sequence[Json]]:
    """The steps that a job carries."""
    carried = cast(dict[str, Json], data).get("do") if isinstance(data, dict) else None
    return [["echo"]] if carried is None else carried
