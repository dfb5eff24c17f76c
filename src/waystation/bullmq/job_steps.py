"""What can be done with one job."""

import asyncio
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from waystation.bullmq.options import MOST_PRIORITY
from waystation.bullmq.redis import job_scripts, scripts
from waystation.bullmq.redis.commands import ask, ask_all
from waystation.bullmq.redis.job_scripts import end_of
from waystation.bullmq.redis.keys import JobKeys, QueueKeys
from waystation.bullmq.redis.queue_scripts import state_of
from waystation.bullmq.redis.refusals import refusal
from waystation.bullmq.states import JobState
from waystation.bullmq.whole_job import WholeJob
from waystation.core import codec
from waystation.core.errors import (
    InvalidOption,
    LeaseLost,
    NotFound,
    TimedOut,
    WrongState,
)
from waystation.core.options import at_least
from waystation.core.store.script import Client

if TYPE_CHECKING:
    from waystation.bullmq.events.stream import QueueEvents

_FIRST_LOOK_S, _LAST_LOOK_S = 0.02, 1.0
_NEVER_REACHED = 2**53 - 1


class Logs(NamedTuple):
    """Lines of a job's log, and how many it has in all."""

    lines: list[str]
    total: int


class JobSteps:
    """The steps of a job; each is refused, with a reason, in a state that does not allow it."""

    __slots__ = ()

    async def update_data(self: WholeJob, data: Any) -> None:
        """Give the job other data."""
        raw = codec.encode_as_node(data)
        code = await job_scripts.update_data(self.queue.client, self.keys, data=raw)
        _accept(self, code)
        self.remember({b"data": raw})

    async def update_progress(self: WholeJob, progress: Any, message: str | None = None) -> None:
        """Tell how far the job is, with any JSON value."""
        told = _progress(progress, message)
        raw = codec.encode_as_node(told)
        client, keys, progressed = self.queue
        code = await job_scripts.update_progress(
            client, keys, base=keys.base, id=self.id, progress=raw
        )
        _accept(self, code)
        self.remember({b"progress": raw})
        if progressed:
            progressed(self, told)

    async def log(self: WholeJob, line: str) -> int:
        """Write a line into the job's log; how many it has now."""
        keep = self.opts.keep_logs
        many = await job_scripts.add_log(
            self.queue.client,
            self.keys,
            # A log takes any text, half a character from a job's data included.
            line=line.encode("utf-8", "backslashreplace"),
            keep="" if keep is None else max(0, keep),
        )
        _accept(self, many)
        return many

    async def logs(self: WholeJob, start: int = 0, end: int = -1, *, asc: bool = True) -> Logs:
        """Lines of the job's log, the oldest first unless asked otherwise."""
        return await read_logs(self.queue.client, self.keys, start, end, asc=asc)

    async def clear_logs(self: WholeJob, keep: int = 0) -> None:
        """Forget the job's log, or all but its newest lines."""
        at_least("the lines to keep", keep, 0)
        command = ("LTRIM", self.keys.logs, -keep, -1) if keep else ("DEL", self.keys.logs)
        await ask(self.queue.client, *command)

    async def promote(self: WholeJob) -> None:
        """Let the delayed job run now."""
        client, keys = self.queue.client, self.queue.keys
        code = await job_scripts.promote(client, keys, base=keys.base, id=self.id)
        _accept(self, code, wanted="delayed")
        self.remember({b"delay": b"0"})

    async def change_delay(self: WholeJob, delay: int) -> None:
        """Let the delayed job wait so many milliseconds from now."""
        at_least("delay", delay, 0)
        client, keys = self.queue.client, self.queue.keys
        code = await job_scripts.change_delay(client, keys, base=keys.base, id=self.id, delay=delay)
        _accept(self, code, wanted="delayed")
        self.remember({b"delay": b"%d" % delay})

    async def change_priority(self: WholeJob, priority: int = 0, *, lifo: bool = False) -> None:
        """Give the job another priority; `lifo` puts it ahead of those that have it already."""
        if at_least("priority", priority, 0) > MOST_PRIORITY:
            raise InvalidOption(f"priority must be at most {MOST_PRIORITY}, got {priority}")
        client, keys = self.queue.client, self.queue.keys
        code = await job_scripts.change_priority(
            client, keys, base=keys.base, id=self.id, priority=priority, lifo=int(lifo)
        )
        _accept(self, code)
        self.remember({b"priority": b"%d" % priority})

    async def retry(
        self: WholeJob,
        state: Literal["failed", "completed"] = "failed",
        *,
        reset_attempts_made: bool = False,
        reset_attempts_started: bool = False,
    ) -> None:
        """Let the finished job run again."""
        if state not in ("failed", "completed"):
            raise InvalidOption(f"only failed and completed jobs can be retried, got {state!r}")
        forget = ["atm"] * reset_attempts_made + ["ats"] * reset_attempts_started
        client, keys = self.queue.client, self.queue.keys
        code = await job_scripts.retry_job(
            client,
            keys,
            base=keys.base,
            id=self.id,
            state=state,
            lifo=int(self.opts.lifo),
            forget=forget,
        )
        _accept(self, code, wanted=state)

    async def remove(self: WholeJob, *, remove_children: bool = True) -> None:
        """Remove the job and, unless asked otherwise, its children."""
        client, keys = self.queue.client, self.queue.keys
        if not await remove_job(client, keys, self.id, remove_children=remove_children):
            raise WrongState(f"job {self.id} is held by a worker, or one of its children is")

    async def move_to_delayed(self: WholeJob, timestamp: int, token: str | None = None) -> None:
        """Let the job wait until that millisecond; the handler then raises `JobDelayed`."""
        client, keys = self.queue.client, self.queue.keys
        code = await job_scripts.move_to_delayed(
            client,
            keys,
            base=keys.base,
            id=self.id,
            token=_lease(self, token),
            due=at_least("timestamp", timestamp, 0),
        )
        _accept(self, code, wanted="active")

    async def move_to_wait(self: WholeJob, token: str | None = None) -> int:
        """Put the job back at the head of the line; the handler then raises `JobWaiting`.

        The reply is how many milliseconds the rate limit still lets nothing through.
        """
        client, keys = self.queue.client, self.queue.keys
        code = await job_scripts.move_to_wait(
            client, keys, base=keys.base, id=self.id, token=_lease(self, token)
        )
        _accept(self, code, wanted="active")
        return code

    async def rate_limit(self: WholeJob, ms: int) -> None:
        """Let no job of the queue start for so many milliseconds; the handler then raises
        `JobRateLimited`."""
        await hold_back(self.queue.client, self.queue.keys, ms)

    async def extend_lock(self: WholeJob, duration: int, token: str | None = None) -> None:
        """Hold the job for so many milliseconds from now."""
        at_least("the duration of a lock", duration, 1)
        client, keys = self.queue.client, self.queue.keys
        locks = [self.id, _lease(self, token)]
        lost = await scripts.extend_locks(
            client, keys, base=keys.base, lease_ms=duration, locks=locks
        )
        if lost:
            raise LeaseLost(f"the lock of job {self.id} has run out or is somebody else's")

    def discard(self: WholeJob) -> None:
        """Let a failure of this attempt be the last, whatever attempts are left."""
        self.remember({b"discarded": b"1"})

    async def remove_deduplication_key(self: WholeJob) -> bool:
        """Let others like this job in, if it is the one that stands for them."""
        if self.deduplication_id is None:
            return False
        client, keys = self.queue.client, self.queue.keys
        return await job_scripts.remove_deduplication(
            client, keys, base=keys.base, id=self.id, deduplication=self.deduplication_id
        )

    async def state(self: WholeJob) -> JobState:
        """Where the job is now."""
        client, keys = self.queue.client, self.queue.keys
        return cast(JobState, await state_of(client, keys, id=self.id))

    async def is_completed(self: WholeJob) -> bool:
        """Whether it has been done."""
        return await self.state() == "completed"

    async def is_failed(self: WholeJob) -> bool:
        """Whether it has failed for good."""
        return await self.state() == "failed"

    async def is_delayed(self: WholeJob) -> bool:
        """Whether its time has not come yet."""
        return await self.state() == "delayed"

    async def is_active(self: WholeJob) -> bool:
        """Whether a worker has it."""
        return await self.state() == "active"

    async def is_waiting(self: WholeJob) -> bool:
        """Whether it is ready to run, by priority or in turn."""
        return await self.state() in ("waiting", "prioritized")

    async def is_paused(self: WholeJob) -> bool:
        """Whether it would run if its queue were not paused."""
        is_held = await ask(self.queue.client, "HEXISTS", self.queue.keys.meta, "paused")
        return bool(is_held) and await self.state() in ("waiting", "prioritized")

    async def is_waiting_children(self: WholeJob) -> bool:
        """Whether it waits for other jobs."""
        return await self.state() == "waiting-children"

    async def wait_until_finished(
        self: WholeJob, events: "QueueEvents | None" = None, timeout: int | None = None
    ) -> Any:
        """What the handler returns, once it has; `JobFailed` when the job fails for good.

        Whoever listens to the queue's events hands them in: then a job that is removed as soon as
        it has finished is not missed, and nobody asks again and again. The timeout is in
        milliseconds.
        """
        if timeout is not None:
            at_least("timeout", timeout, 0)
        if events is not None:
            return await events.wait_until_finished(self.id, timeout)
        try:
            async with asyncio.timeout(None if timeout is None else timeout / 1000):
                return await _ask_until_finished(self)
        except TimeoutError:
            raise TimedOut(f"job {self.id} has not finished within {timeout} ms") from None


async def hold_back(client: Client, keys: QueueKeys, ms: int) -> None:
    """Let no job start for so many milliseconds, wherever a rate limit is set."""
    await ask(client, "SET", keys.limiter, _NEVER_REACHED, "PX", at_least("ms", ms, 1))


async def remove_job(client: Client, keys: QueueKeys, id: str, *, remove_children: bool) -> bool:
    """Remove a job; False when a worker holds it or one of its children."""
    code = await job_scripts.remove_job(
        client, keys, base=keys.base, id=id, with_children=int(remove_children)
    )
    if code < 0:
        raise WrongState(f"job {id} is the next of its scheduler: remove the scheduler instead")
    return code == 1


async def read_logs(client: Client, keys: JobKeys, start: int, end: int, *, asc: bool) -> Logs:
    """Lines of a job's log."""
    first, last = (start, end) if asc else (-(end + 1), -(start + 1))
    raw, total = await ask_all(client, ("LRANGE", keys.logs, first, last), ("LLEN", keys.logs))
    lines = [line.decode("utf-8", "replace") for line in raw]
    return Logs(lines if asc else lines[::-1], total)


async def _ask_until_finished(job: WholeJob) -> Any:
    client, keys = job.queue.client, job.queue.keys
    pause = _FIRST_LOOK_S
    while True:
        end = await end_of(client, keys, base=keys.base, id=job.id)
        if end.finished:
            return end.result()
        if end.state == "missing":
            raise NotFound(f"job {job.id} is gone, and how it ended was not kept")
        await asyncio.sleep(pause)
        pause = min(pause * 2, _LAST_LOOK_S)


def _progress(progress: Any, message: str | None) -> Any:
    if message is None:
        return progress
    if isinstance(progress, dict):
        return {**cast(dict[str, Any], progress), "message": message}
    return {"progress": progress, "message": message}


def _lease(job: WholeJob, token: str | None) -> str:
    held = token or job.token
    if held is None:
        raise WrongState(f"job {job.id} is not held by this worker")
    return held


def _accept(job: WholeJob, code: int, *, wanted: str = "active") -> None:
    if code < 0:
        raise refusal(code, job.id, wanted=wanted)
