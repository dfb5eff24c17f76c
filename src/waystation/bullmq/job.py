"""Job: one job of a queue, with everything that can be done to it."""

# The functions at the end of the file are for the package alone, as the underscores say.
# pyright: reportPrivateUsage=false

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    ParamSpec,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from msgspec import UNSET

from waystation.bullmq.fields import (
    COUNTED,
    Changed,
    Data,
    JobFields,
    Result,
    known,
    progress_with,
    remember,
    remember_all,
)
from waystation.bullmq.keywords import JobKeywords
from waystation.bullmq.options import MOST_PRIORITY, check_share, instant_ms
from waystation.bullmq.payloads.envelope import BEGINNING, refuse_imitation
from waystation.bullmq.redis import children, scripts
from waystation.bullmq.redis.children import ChildResult, DependencyCounts, DependencyPage
from waystation.bullmq.redis.commands import Logs, block_for, hash_at, read_logs, refusal
from waystation.bullmq.redis.ends import cancel_job, remove_job, retry_finished
from waystation.bullmq.redis.keys import JobKeys, QueueKeys
from waystation.bullmq.states import JobState
from waystation.bullmq.step_rules import checked_name, duration_of
from waystation.bullmq.steps import Steps, Undo
from waystation.bullmq.sync_job import SyncJob
from waystation.core import codec
from waystation.core.durations import Duration, DurationKeywords, milliseconds, seconds
from waystation.core.errors import InvalidOption, LeaseLost, NotFound, WaystationError, WrongState
from waystation.core.options import at_least, checked
from waystation.core.runtime.handlers.calls import Call, Calls
from waystation.core.store.commands import ask
from waystation.core.store.script import Client

if TYPE_CHECKING:
    from waystation.bullmq.events.stream import QueueEvents
    from waystation.bullmq.payloads.sealing import Sealing

P = ParamSpec("P")
T = TypeVar("T")

_FIRST_POLL_S, _LAST_POLL_S = 0.02, 1.0


class QueueRef(NamedTuple):
    """The queue of a job, and the client to reach it with."""

    client: Client
    keys: QueueKeys
    progressed: Callable[[Any, Any], None] | None = None
    """Called with a job and its new progress, while a worker holds the job."""
    sealing: "Sealing | None" = None
    """Opens its payloads, and seals new ones."""


@checked
class Job(JobFields[Data, Result]):
    """A job as it was when it was read; `async def` handlers and `Queue.get_job` get one.

    `Job[Data, Result]` names the types of its data and its result. A method that the job's state
    does not allow raises `WrongState`, and `NotFound` when the job is gone.
    """

    __slots__ = ("_queue", "_reading", "_stepping")

    def __init__(
        self, id: str, fields: dict[bytes, bytes], queue: QueueRef | None, token: str | None = None
    ) -> None:
        """Internal: queues and workers make jobs."""
        # Without `super()`: one is made for every job that is claimed or added.
        JobFields.__init__(self, id, fields, token)
        self._queue = queue

    @property
    def queue_name(self) -> str:
        """The name of the job's queue."""
        return self._ref.keys.name

    async def refresh(self) -> None:
        """Read the job again, and what of it is kept outside the store."""
        client, keys, _, sealing = self._ref
        [fields] = await scripts.read_jobs(client, keys, ids=[self.id])
        if not fields:
            raise NotFound(f"there is no job {self.id}")
        fields[COUNTED] = b""
        if self.discarded:
            fields[b"discarded"] = b"1"
        remember_all(self, fields)
        if sealing is not None:
            await sealing.fetch(self)

    # Data, progress, log

    async def update_data(self, data: Data) -> None:
        """Replace the job's data."""
        client, keys, _, sealing = self._ref
        plain = raw = codec.encode_data(data)
        refuse_imitation(plain)
        if sealing is not None and sealing.seals:
            raw = codec.encode_as_node(await sealing.sealed_soon(keys.name, data))
        codec.check_size(len(raw))
        self._accept(await scripts.update_data(client, self._keys, data=raw))
        remember(self, {b"data": raw if plain.startswith(BEGINNING) else plain})

    async def update_progress(self, progress: Any, message: str | None = None) -> None:
        """Report the job's progress, which is any JSON value."""
        reported = progress if message is None else progress_with(progress, message)
        raw = codec.encode_as_node(reported)
        codec.check_size(len(raw), what="Progress")
        client, keys, progressed, _ = self._ref
        self._accept(await scripts.update_progress(client, keys, id=self.id, progress=raw))
        remember(self, {b"progress": raw})
        if progressed:
            progressed(self, reported)

    async def log(self, line: object) -> int:
        """Append a line to the job's log, as `str` writes it; return how many lines it has now."""
        keep = self.options.keep_logs
        # A log takes any text, half a character from a job's data included.
        raw = str(line).encode("utf-8", "backslashreplace")
        codec.check_size(len(raw), what="Log line")
        count = await scripts.add_log(
            self._ref.client,
            self._keys,
            line=raw,
            keep="" if keep is None else max(0, keep),
        )
        self._accept(count)
        return count

    async def logs(
        self, offset: int = 0, limit: int | None = None, *, newest_first: bool = False
    ) -> Logs:
        """Lines of the job's log; `limit` None means all."""
        return await read_logs(
            self._ref.client, self._keys, offset, limit, newest_first=newest_first
        )

    async def clear_logs(self, keep: int = 0) -> None:
        """Delete the job's log, except the newest `keep` lines."""
        at_least("the lines to keep", keep, 0)
        logs = self._keys.logs
        await ask(self._ref.client, *(("LTRIM", logs, -keep, -1) if keep else ("DEL", logs)))

    # Changes of a job that no worker holds

    async def promote(self) -> None:
        """Make the delayed job ready to run now."""
        client, keys, *_ = self._ref
        code = await scripts.promote(client, keys, id=self.id)
        self._accept(code, wanted="delayed")
        remember(self, {b"delay": b"0"})

    async def change_delay(self, delay: Duration) -> None:
        """Delay the delayed job anew, counted from now."""
        ms = milliseconds(delay, "delay")
        client, keys, *_ = self._ref
        code = await scripts.change_delay(client, keys, id=self.id, delay=ms)
        self._accept(code, wanted="delayed")
        remember(self, {b"delay": b"%d" % ms})

    async def change_priority(self, priority: int = 0, *, lifo: bool = False) -> None:
        """Give the job another priority; `lifo` puts it ahead of those that have it already."""
        if at_least("priority", priority, 0) > MOST_PRIORITY:
            raise InvalidOption(f"priority must be at most {MOST_PRIORITY}, got {priority}")
        client, keys, *_ = self._ref
        code = await scripts.change_priority(
            client, keys, id=self.id, priority=priority, lifo=int(lifo)
        )
        self._accept(code)
        remember(self, {b"priority": b"%d" % priority})

    async def retry(
        self,
        state: Literal["failed", "completed"] = "failed",
        *,
        reset_attempts_made: bool = False,
        reset_attempts_started: bool = False,
    ) -> None:
        """Run the finished job again."""
        forget = ["atm"] * reset_attempts_made + ["ats"] * reset_attempts_started
        client, keys, *_ = self._ref
        code = await retry_finished(
            client, keys, self.id, state, lifo=self.options.lifo, forget=forget
        )
        self._accept(code, wanted=state)

    async def cancel(self, reason: str = "") -> bool:
        """Make the job fail, whether it waits or runs; False when it has ended already."""
        return await cancel_job(*self._ref[:2], self.id, self.options.keep_failed, reason)

    async def remove(self, *, remove_children: bool = True) -> None:
        """Remove the job and, by default, its children."""
        client, keys, *_ = self._ref
        if not await remove_job(client, keys, self.id, remove_children=remove_children):
            raise WrongState(f"job {self.id} is held by a worker, or one of its children is")

    async def remove_deduplication_key(self) -> bool:
        """Allow other jobs with this one's deduplication id; False when this one did not own it."""
        if self.deduplication_id is None:
            return False
        client, keys, *_ = self._ref
        return await scripts.remove_deduplication(
            client, keys, id=self.id, deduplication=self.deduplication_id
        )

    # For a handler, about the job that it runs

    async def move_to_delayed(self, until: datetime, token: str | None = None) -> None:
        """Delay the job until this instant; the handler then raises `JobDelayed`."""
        self._steps.must_go_on()
        await delay_until(self, instant_ms("until", until), self._lock(token))

    async def move_to_wait(self, token: str | None = None) -> timedelta:
        """Put the job back at the head of its queue; the handler then raises `JobWaiting`.

        Returns how long the rate limit still holds the queue back.
        """
        self._steps.must_go_on()
        client, keys, *_ = self._ref
        code = await scripts.move_to_wait(client, keys, id=self.id, token=self._lock(token))
        self._accept(code, wanted="active")
        return timedelta(milliseconds=code)

    async def move_to_waiting_children(self, *, child: str | None = None) -> bool:
        """Make the job wait for its children, or for the one with this key.

        The handler then raises `JobWaitingForChildren`. False when there is nothing to wait for.
        """
        if self.token is None:
            raise LeaseLost(f"job {self.id} is not held by a worker here")
        self._steps.must_go_on()
        client, keys, *_ = self._ref
        deadline = self.options.terms.deadline_ms(self.created_ms)
        return await children.wait_for_children(
            client, keys, self.id, self.token, child=child, deadline_ms=deadline
        )

    async def rate_limit(self, duration: Duration) -> None:
        """Start no job of the queue for a while; the handler then raises `JobRateLimited`."""
        await block_for(self._ref.client, self._ref.keys, duration)

    async def extend_lock(self, duration: Duration, token: str | None = None) -> None:
        """Hold the job for this long from now."""
        ms = max(1, milliseconds(duration, "the duration of a lock", above=0))
        client, keys, *_ = self._ref
        locks = [self.id, self._lock(token)]
        if await scripts.extend_locks(client, keys, lease_ms=ms, locks=locks):
            raise LeaseLost(f"the lock of job {self.id} has run out or is somebody else's")

    async def charge(self, cost: float) -> None:
        """Say what the job costs in truth, such as tokens, instead of what was thought before.

        What it costs more is counted for its group from now on; a rate limit of the group is
        exceeded by no later job for it.
        """
        check_share("cost", cost)
        client, keys, *_ = self._ref
        code = await scripts.charge(client, keys, id=self.id, token=self._lock(None), cost=cost)
        self._accept(code, wanted="active")
        remember(self, {b"gcost": repr(cost).encode()})

    def discard(self) -> None:
        """Make a failure of this attempt final, even if attempts are left."""
        remember(self, {b"discarded": b"1"})

    # Steps, for a handler

    @overload
    async def step(
        self, name: str, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T: ...
    @overload
    async def step(
        self, name: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T: ...
    async def step(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function once, however often the job is tried, and return what it returned.

        What it returns is stored as JSON, and has the type that the function's annotation names. A
        plain function runs in a thread. Steps of one name are distinguished by their order; one
        whose function has changed since it was done raises `WrongState`.
        """
        return await self._steps.run(name, function, *args, **kwargs)

    async def sleep(
        self, duration: Duration | None = None, **given: Unpack[DurationKeywords]
    ) -> None:
        """Leave the worker for a duration, such as `days=3`; then the handler runs again."""
        await self._steps.sleep(duration_of(duration, given))

    async def sleep_until(self, instant: datetime) -> None:
        """Leave the worker until this instant; then the handler runs again."""
        await self._steps.sleep(until=instant)

    async def wait_for(
        self, signal: str, timeout: Duration | None = None, *, type: Any = Any
    ) -> Any:
        """Leave the worker until somebody calls `queue.signal`; returns the data of the signal.

        Each wait takes the first signal of its name that no other has taken. Raises `TimedOut` when
        none has come after `timeout`. With `type` the data is read as that.
        """
        return await self._steps.wait_for(signal, timeout, type)

    def on_failure(
        self, name: str, function: Callable[P, Any], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Call a function, once, if the job fails for good; those given last are called first."""
        self._steps.on_failure(Undo(checked_name("step", name), function, args, kwargs))

    async def run_child(
        self,
        name: str,
        data: Any = UNSET,
        *,
        queue: str | None = None,
        type: Any = Any,
        **given: Unpack[JobKeywords],
    ) -> Any:
        """Add a child once, leave the worker until it has ended, and return its result.

        Raises `JobFailed` when it fails for good. With `type` the result is read as that.
        """
        return await self._steps.run_child(name, data, queue, given, type)

    async def emit(self, data: Any) -> int:
        """Append a part to the job's output, for readers of `queue.stream`; returns its number.

        Parts that an earlier attempt has emitted are not repeated.
        """
        return await self._steps.emit(data)

    async def _save_step(self, step: str, result: Any, function: str) -> Any:
        """Remember what a step of a plain handler returned."""
        return await self._steps.save(step, result, function)

    async def _begin_step(self, name: str, function: str) -> tuple[str, tuple[Any] | None]:
        """Begin a step of a plain handler; what it returned before is alone in a tuple."""
        step, done = self._steps.begin(name, function)
        return step, None if done is None else (await self._steps.result(done),)

    # State and end

    async def state(self) -> JobState:
        """The state that the job is in now."""
        client, keys, *_ = self._ref
        return cast(JobState, await scripts.state_of(client, keys, id=self.id))

    async def is_completed(self) -> bool:
        """True when the job is completed."""
        return await self.state() == "completed"

    async def is_failed(self) -> bool:
        """True when the job has failed for good."""
        return await self.state() == "failed"

    async def is_delayed(self) -> bool:
        """True when the job is delayed."""
        return await self.state() == "delayed"

    async def is_active(self) -> bool:
        """True when a worker holds the job."""
        return await self.state() == "active"

    async def is_waiting(self) -> bool:
        """True when the job is ready to run, with a priority or without."""
        return await self.state() in ("waiting", "prioritized")

    async def is_paused(self) -> bool:
        """True when the job is ready to run, but its queue is paused."""
        is_held = await ask(self._ref.client, "HEXISTS", self._ref.keys.meta, "paused")
        return bool(is_held) and await self.state() in ("waiting", "prioritized")

    async def is_waiting_children(self) -> bool:
        """True when the job waits for its children."""
        return await self.state() == "waiting-children"

    async def wait(
        self, timeout: Duration | None = None, events: "QueueEvents | None" = None
    ) -> Result:
        """Wait until the job is finished, and return its result.

        Raises `JobFailed` when it fails for good, and `TimeoutError` after `timeout`. With `events`
        the end comes from the queue's events: then a job that is removed as soon as it has finished
        is not missed, and Redis is not polled. `Queue.wait` does that by itself.
        """
        if events is not None:
            if not hasattr(events, "wait"):
                raise InvalidOption(f"events must be a QueueEvents, got {events!r}")
            return await self._open(await events.wait(self.id, timeout))
        limit = None if timeout is None else seconds(timeout, "timeout")
        try:
            async with asyncio.timeout(limit):
                return await self._poll_until_finished()
        except TimeoutError:
            raise TimeoutError(f"job {self.id} has not finished within {limit:g} s") from None

    async def _poll_until_finished(self) -> Any:
        (client, keys, *_), pause = self._ref, _FIRST_POLL_S
        while True:
            end = await scripts.end_of(client, keys, id=self.id)
            if end.finished:
                return await self._open(end.result())
            if end.state == "missing":
                raise NotFound(f"job {self.id} is gone, and its end was not kept")
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LAST_POLL_S)

    # Children and parent

    async def get_dependencies(
        self, kind: children.ChildKind, *, cursor: int = 0, count: int = 100
    ) -> DependencyPage:
        """A page of about `count` of the job's children of one kind."""
        page = await children.page(self._ref.client, self._keys, kind, cursor=cursor, count=count)
        return page._replace(children=await self._open_all(page.children))

    async def dependency_counts(self) -> DependencyCounts:
        """How many children of each kind the job has."""
        return await children.counts(self._ref.client, self._keys)

    async def children_values(self) -> dict[str, Any]:
        """Results of the job's completed children, by their keys."""
        return await self._open_all(await children.values(self._ref.client, self._keys))

    async def children_results(self) -> list[ChildResult]:
        """The job's finished children with their names, in the order in which a flow gave them.

        Children with ids of their own come in the order of these.
        """
        found = await children.results(self._ref.client, self._ref.keys, self.id)
        opened = [each._replace(result=await self._open(each.result)) for each in found]
        read = getattr(self, "_reading", None)
        return [each._replace(result=read(each)) for each in opened] if read else opened

    async def ignored_children_failures(self) -> dict[str, str]:
        """Reasons of failed children that do not fail the job, by their keys."""
        return await children.ignored_failures(self._ref.client, self._keys)

    async def failed_children(self) -> list[str]:
        """Keys of the children whose failure fails the job, in the order of their failures."""
        return await children.failed_keys(self._ref.client, self._keys)

    async def remove_child_dependency(self) -> bool:
        """Release the job's parent from waiting for it; False when it did not wait."""
        return await children.detach(self._ref.client, self._ref.keys, self.id)

    async def remove_unprocessed_children(self) -> int:
        """Remove the children that no worker has started, with theirs; returns how many jobs."""
        return await children.remove_unprocessed(self._ref.client, self._ref.keys, self.id)

    async def get_parent(self) -> "Job | None":
        """The job that waits for this one."""
        place = children.parent_place(self.parent_key, self._text(b"parent"))
        if place is None:
            return None
        fields = await hash_at(self._ref.client, place.queue.of(place.id).job)
        queue = QueueRef(self._ref.client, place.queue, sealing=self._ref.sealing)
        return Job(place.id, fields, queue) if fields else None

    # For plain handlers, which see the job through a `SyncJob`

    def view(self, calls: Calls) -> SyncJob:
        """Internal: the job for a plain handler."""
        return SyncJob(self.id, dict(self._fields), self.token, self._ref.keys, calls)

    async def perform(self, call: Call) -> tuple[Any, Changed]:
        """Internal: make a call of a plain handler; its result, and the fields it has changed."""
        *way, step = call.step.split(".")
        job = self
        for _ in way:
            parent = await job.get_parent()
            if parent is None:
                raise NotFound(f"job {job.id} has no parent any more")
            job = parent
        known = job._fields
        before = dict(known)
        result = getattr(job, step)(*call.args, **call.kwargs)
        if inspect.isawaitable(result):
            result = await result
        if isinstance(result, Job):
            parent = cast(Job, result)
            result = parent.id, parent._fields, parent._ref.keys
        return result, job._changed_since(known, before)

    def _changed_since(self, known: dict[bytes, bytes], before: dict[bytes, bytes]) -> Changed:
        now = self._fields
        if now is not known:
            return Changed(now, is_all=True)
        changed = {name: value for name, value in now.items() if before.get(name) is not value}
        return Changed(changed, is_all=False)

    @property
    def _steps(self) -> Steps:
        # Made when first asked for: most jobs have no steps, and every job that is claimed is made.
        steps = getattr(self, "_stepping", None)
        if steps is None:
            client, keys, _, sealing = self._ref
            steps = self._stepping = Steps(self, client, keys, sealing)
        return steps

    def _opened(self, stored: Any) -> Any:
        sealing = self._queue and self._queue.sealing
        # Few jobs have blobs, and every job that is claimed is made.
        fetched = getattr(self, "_fetched", None)
        return stored if sealing is None else sealing.opened(stored, fetched)

    async def _open(self, stored: Any) -> Any:
        """As `_opened`, without holding up the loop."""
        sealing = self._ref.sealing
        return stored if sealing is None else await sealing.opened_soon(stored)

    async def _open_all(self, stored: dict[str, Any]) -> dict[str, Any]:
        return {key: await self._open(value) for key, value in stored.items()}

    @property
    def _ref(self) -> QueueRef:
        if self._queue is None:
            raise WrongState(
                f"job {self.id} cannot reach a queue: it was made without one, or pickled"
            )
        return self._queue

    @property
    def _keys(self) -> JobKeys:
        return self._ref.keys.of(self.id)

    def _lock(self, token: str | None) -> str:
        held = token or self.token
        if held is None:
            raise WrongState(f"job {self.id} is not held by this worker")
        return held

    def _accept(self, code: int, *, wanted: str = "active") -> None:
        if code < 0:
            raise refusal(code, self.id, wanted=wanted)

    def __repr__(self) -> str:
        return f"Job({self.id!r}, {self.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # The connection cannot be pickled.
        return Job, (self.id, self._fields, None, self.token)


def steps_of(job: Job) -> Steps:
    """The steps of a job in this attempt. Internal."""
    return job._steps


async def delay_until(job: Job, due_ms: int, token: str | None = None) -> None:
    """Delay a job that this worker holds, also one that is to be undone. Internal."""
    client, keys, *_ = job._ref
    held = job._lock(token)
    job._accept(await scripts.move_to_delayed(client, keys, id=job.id, token=held, due=due_ms))


def read_results_with(job: Job, read: Callable[[ChildResult], Any]) -> None:
    """Let the results of a job's children be what `read` makes of them. Internal."""
    job._reading = read


def has_undo(job: Job) -> bool:
    """True when something has to be undone should the job fail for good. Internal."""
    is_new = getattr(job, "_stepping", None) is None
    if is_new and known(job, b"given") is None and known(job, b"cut") is None:
        return False
    return job._steps.has_undo()


def refusal_of(job: Job, code: int) -> WaystationError:
    """Why an outcome of a job was not taken. Internal."""
    steps: Steps | None = getattr(job, "_stepping", None)
    return refusal(code, job.id) if steps is None else steps.refusal(code)


def queue_of(job: Job) -> QueueRef:
    """The queue of a job, and the client to reach it with. Internal."""
    return job._ref
