"""A collection of tasks: declares them, adds their jobs, and runs workers for them."""

import asyncio
import contextlib
import inspect
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from contextvars import ContextVar
from typing import Any, ParamSpec, Protocol, Self, TypeAlias, TypeVar, Unpack, cast, overload
from weakref import WeakKeyDictionary

from waystation.bullmq import (
    ChildResult,
    FlowJob,
    FlowNode,
    FlowProducer,
    Job,
    JobOptions,
    Listener,
    NewJob,
    PayloadOptions,
    Queue,
    Schedule,
    Store,
    WorkerKeywords,
    WorkerOptions,
    open_store,
)
from waystation.bullmq.payloads import sweeping
from waystation.bullmq.payloads.sealing import Sealing
from waystation.bullmq.redis.keys import PREFIX, QueueKeys
from waystation.bullmq.redis.packing import merged
from waystation.core.durations import Duration
from waystation.core.errors import InvalidOption
from waystation.core.options import at_least, checked, of_kind
from waystation.core.runtime.service import serve
from waystation.core.shared import Shared
from waystation.tasks.blocking import BlockingTasks
from waystation.tasks.dependencies import Lifespan, Place, Provider
from waystation.tasks.groups import group_of_calls
from waystation.tasks.keywords import TaskKeywords
from waystation.tasks.payload import plain_of
from waystation.tasks.task import (
    AsyncTask,
    Call,
    CallNode,
    PlainTask,
    Task,
    TaskFlow,
    TaskJob,
    TaskTerms,
    Upgrade,
    by_their_queues,
)
from waystation.tasks.worker import TaskWorker

_WEEK_S = 7 * 86_400
_OF_A_TASK = ("queue", "name", "retries", "process", "version", "upgrade")

P = ParamSpec("P")
R = TypeVar("R")
M = TypeVar("M", bound="Middleware")

Next: TypeAlias = Callable[[], Awaitable[Any]]
"""Goes on with the next middleware, or with the handler, and returns its result."""
Middleware: TypeAlias = Callable[[Job, Next], Awaitable[Any]]
"""Runs around every handler: `async def timed(job, call_next)`. What it returns is the result."""


class Declare(Protocol):
    """A decorator that makes a task of a function."""

    @overload
    def __call__(  # pyright: ignore[reportOverlappingOverload]
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> PlainTask[P, R]: ...


@checked
class Tasks:
    """A collection of tasks over one store.

    Without a `url` the settings say where the store is. `context` names context variables that
    travel with a job: its handler sees the values that they had when the job was added. `payloads`
    encrypts arguments and results, or keeps large ones outside the store.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        prefix: str = PREFIX,
        default_options: JobOptions | None = None,
        context: Sequence[ContextVar[Any]] = (),
        payloads: PayloadOptions | None = None,
    ) -> None:
        if url is not None:
            of_kind("url", url, str)
        for each in context:
            of_kind("each of context", each, ContextVar)
        self.url = url
        self.prefix = prefix
        self._defaults = default_options or JobOptions()
        self._context = {each.name: each for each in context}
        if len(self._context) != len(context):
            raise InvalidOption("context variables need different names, got one name twice")
        self._declared: dict[tuple[str, str], Task[..., Any]] = {}
        self.payloads = payloads
        """What becomes of arguments and results before they are stored."""
        self.sealing = Sealing(payloads)
        """Seals and opens them. Internal."""
        self.layers: list[Middleware] = []
        """The middleware, the outermost first. Internal."""
        self.overrides: dict[Provider, Provider] = {}
        """Providers that others stand in for. Internal."""
        self.lifespans = Shared(self._lifespan, Lifespan.close)
        """What the workers of a process share. Internal."""
        self._producers: WeakKeyDictionary[asyncio.AbstractEventLoop, _Producer]
        self._producers = WeakKeyDictionary()
        self.sync = BlockingTasks(self)
        """The same for code without an event loop: `tasks.sync.add_flow(…)`."""

    # Declaring

    @overload
    def task(  # pyright: ignore[reportOverlappingOverload]
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> PlainTask[P, R]: ...
    @overload
    def task(
        self,
        /,
        *,
        queue: str = "default",
        name: str | None = None,
        retries: int | None = None,
        process: bool = False,
        version: int = 1,
        upgrade: Upgrade | None = None,
        **given: Unpack[TaskKeywords],
    ) -> Declare: ...
    def task(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        queue: str = "default",
        name: str | None = None,
        retries: int | None = None,
        process: bool = False,
        version: int = 1,
        upgrade: Upgrade | None = None,
        **given: Unpack[TaskKeywords],
    ) -> Any:
        """Make a task of a function: `@tasks.task`, or `@tasks.task(queue="mail")`.

        `retries` counts the attempts after the first. With `process` a plain function runs in a
        process instead of a thread. When the parameters change, a higher `version` and an `upgrade`
        function let older jobs run. Other keywords are options of its jobs, such as `timeout`;
        `group` may be a function of the arguments that it names, `lambda order: order.tenant`.
        """
        QueueKeys(queue, prefix=self.prefix)  # refuses what cannot be the name of a queue
        if retries is not None:
            if "attempts" in given:
                raise InvalidOption("attempts is one more than retries: give only one of them")
            given["attempts"] = at_least("retries", retries, 0) + 1
        plain, group_of = group_of_calls(given)
        options = merged(None, plain, self._defaults, of="a task", others=_OF_A_TASK)

        def declare(function: Callable[..., Any]) -> Any:
            _check_function(function)
            known_as = name or getattr(function, "__name__", "")
            terms = TaskTerms(known_as, queue, options, process, version, upgrade, group_of)
            if inspect.iscoroutinefunction(function):
                return self._declare(AsyncTask[..., Any](self, function, terms))
            return self._declare(PlainTask[..., Any](self, function, terms))

        return declare if function is None else declare(function)

    def middleware(self, function: M) -> M:
        """Run a coroutine around every handler; the one declared first is the outermost."""
        self.layers.append(function)
        return function

    @contextlib.contextmanager
    def override(self, provider: Provider, replacement: Provider) -> Generator[None]:
        """Use another provider while inside; for tests."""
        before = self.overrides.get(provider)
        self.overrides[provider] = replacement
        try:
            yield
        finally:
            del self.overrides[provider]
            if before is not None:
                self.overrides[provider] = before

    # Adding

    async def add_many(self, calls: Iterable[Call[R]]) -> list[TaskJob[R]]:
        """Add a job for each call, whatever their tasks; those of one queue go together."""
        all_calls, by_queue = by_their_queues(calls)
        new_jobs = await self._new_jobs(all_calls)
        added: dict[int, TaskJob[R]] = {}
        for name, places in by_queue.items():
            jobs = await self.queue(name).add_many(new_jobs[each] for each in places)
            for place, job in zip(places, jobs, strict=True):
                added[place] = TaskJob(all_calls[place].task, job)
        return [added[place] for place in range(len(all_calls))]

    @overload
    async def add_flow(self, tree: CallNode[R]) -> TaskFlow[R]: ...
    @overload
    async def add_flow(self, tree: FlowNode) -> FlowJob: ...
    async def add_flow(self, tree: FlowNode) -> TaskFlow[Any] | FlowJob:
        """Add a tree of calls, which `call.after(…)` makes, all or nothing.

        The result of what is returned is that of the call at the top.
        """
        added = await self._producer.flows.add(tree)
        if not isinstance(tree, CallNode):
            return added
        return TaskFlow(cast("CallNode[Any]", tree).task, added)

    async def schedule(self, scheduler_id: str, schedule: Schedule, call: Call[Any]) -> str:
        """Add a call again and again; returns the id of the next job.

        Calling it again with the same id changes the schedule, so every process may do so.
        """
        [job] = await self._new_jobs([call])
        return await self.queue(call.task.queue).schedulers.upsert(
            scheduler_id, schedule, name=job.name, data=job.data, options=job.options
        )

    def queue(self, name: str) -> Queue:
        """One of the queues, for everything else that can be done with it."""
        return self._producer.queue(name)

    # Working

    def worker(
        self,
        queue: str,
        url: str | Store | None = None,
        *,
        options: WorkerOptions | None = None,
        listener: Listener[Job] | None = None,
        **given: Unpack[WorkerKeywords],
    ) -> TaskWorker:
        """A worker for the tasks of one queue."""
        return TaskWorker(self, queue, url or self.url, options=options, listener=listener, **given)

    async def run(self, *queues: str, **given: Unpack[WorkerKeywords]) -> None:
        """Run a worker for each of these queues, or of all, until a signal asks to stop."""
        workers = [self.worker(name, **given) for name in queues or self.queues]
        if not workers:
            raise InvalidOption("there is no task to run")
        async with self:
            await serve(workers)

    # Payloads

    def opened(self, stored: Any) -> Any:
        """What a task was given or has returned, from what is stored of it, such as a child's."""
        return self.sealing.opened(stored)

    async def sweep_blobs(
        self, store: Store | None = None, *, older: Duration = _WEEK_S, dry_run: bool = False
    ) -> int:
        """Delete blobs older than that which no job mentions any more; returns how many."""
        if store is None:
            async with await open_store(self.url) as opened:
                return await self.sweep_blobs(opened, older=older, dry_run=dry_run)
        queues = [QueueKeys(each, prefix=self.prefix) for each in self.queues]
        return await sweeping.sweep(store, self.sealing.blobs, queues, older=older, dry_run=dry_run)

    # Looking up

    @property
    def queues(self) -> list[str]:
        """The names of all queues that a task adds to."""
        return list(dict.fromkeys(queue for queue, _ in self._declared))

    def __iter__(self) -> Iterator[Task[..., Any]]:
        return iter(self._declared.values())

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the data and the result of every task, by queue and name."""
        written: dict[str, Any] = {}
        for task in self:
            written.setdefault(task.queue, {})[task.name] = {
                "version": task.version,
                "data": task.schema(),
                "result": task.result_schema(),
            }
        return {"$schema": "https://json-schema.org/draft/2020-12/schema", "queues": written}

    # Connections

    async def close(self) -> None:
        """Close the connections of this event loop."""
        producer = self._producers.pop(asyncio.get_running_loop(), None)
        if producer is not None:
            await producer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @contextlib.asynccontextmanager
    async def connected(self, store: Store) -> AsyncGenerator[None]:
        """Let the tasks of this event loop add their jobs to a store that is open already."""
        self._producers[asyncio.get_running_loop()] = self._producer_at(store)
        try:
            yield
        finally:
            await self.close()

    @contextlib.contextmanager
    def at(self, url: str) -> Generator[None]:
        """Add to the store at another URL while inside, from every loop and thread; for tests.

        Before leaving, `close` closes what an event loop has opened inside.
        """
        before = self.url, self._producers, self.sync
        self.url, self._producers, self.sync = url, WeakKeyDictionary(), BlockingTasks(self)
        try:
            yield
        finally:
            self.sync.close()
            self.url, self._producers, self.sync = before

    # Internal

    async def _new_jobs(self, calls: Sequence[Call[Any]]) -> list[NewJob]:
        if self.sealing.blobs is None:
            return [each.new_job() for each in calls]
        # What is large is written to a directory or an object store.
        return await asyncio.to_thread(lambda: [each.new_job() for each in calls])

    def _declare(self, task: Task[..., Any]) -> Task[..., Any]:
        if not task.name:
            raise InvalidOption(f"a task needs a name, and {task.function!r} has none")
        if (task.queue, task.name) in self._declared:
            raise InvalidOption(f"the queue {task.queue} has a task {task.name} already")
        self._declared[task.queue, task.name] = task
        return task

    @property
    def _producer(self) -> "_Producer":
        loop = asyncio.get_running_loop()
        found = self._producers.get(loop)
        if found is None:
            found = self._producers[loop] = self._producer_at(self.url)
        return found

    def _producer_at(self, place: str | Store | None) -> "_Producer":
        return _Producer(place, self.prefix, self.payloads)

    async def _lifespan(self, place: Place) -> Lifespan:
        return Lifespan(place.store, self.overrides)

    def child_result(self, child: ChildResult) -> Any:
        """The result of a child as its task promises it; as it is when there is no such task."""
        task = self._declared.get((child.queue, child.name or ""))
        if task is None or child.failed_reason is not None:
            return child.result
        return task.result_of(child.result)

    def context_now(self) -> dict[str, Any]:
        """The context variables that travel with a job added now. Internal."""
        missing = object()
        found = {name: each.get(missing) for name, each in self._context.items()}
        return {name: plain_of(value) for name, value in found.items() if value is not missing}

    def restore_context(self, context: dict[str, Any]) -> None:
        """Set the context variables as they were when a job was added. Internal."""
        for name, value in context.items():
            if name in self._context:
                self._context[name].set(value)


def _check_function(given: Any) -> None:
    """Refuse what is no function, and say what was probably meant."""
    if isinstance(given, str):
        raise InvalidOption(
            f"a task is made of a function, got {given!r}; a queue has its keyword, "
            f"@tasks.task(queue={given!r}), and so has a name"
        )
    if not callable(given):
        raise InvalidOption(
            f"a task is made of a function, got {given!r}; write @tasks.task above it, or "
            '@tasks.task(queue="mail") with options by their names'
        )


class _Producer:
    """The queues of one event loop."""

    def __init__(
        self, place: str | Store | None, prefix: str, payloads: PayloadOptions | None
    ) -> None:
        self._place = place
        self._prefix = prefix
        # What a call has sealed is not sealed again; signals and plain jobs are sealed here.
        self._payloads = payloads
        self._queues: dict[str, Queue] = {}
        self._flows: FlowProducer | None = None

    def queue(self, name: str) -> Queue:
        if name not in self._queues:
            self._queues[name] = Queue(
                name, self._place, prefix=self._prefix, payloads=self._payloads
            )
        return self._queues[name]

    @property
    def flows(self) -> FlowProducer:
        if self._flows is None:
            self._flows = FlowProducer(self._place, prefix=self._prefix, payloads=self._payloads)
        return self._flows

    async def close(self) -> None:
        for each in [*self._queues.values(), *([self._flows] if self._flows else [])]:
            await each.close()
