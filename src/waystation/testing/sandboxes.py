"""Sandbox: queues and workers on a server of their own, with time that the test turns."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeAlias, TypeVar, Unpack, cast, overload

from waystation.bullmq import Job, PayloadOptions, Queue, Worker
from waystation.bullmq.fields import JobFields
from waystation.bullmq.redis.commands import hash_at
from waystation.bullmq.redis.keys import PREFIX, QueueKeys
from waystation.bullmq.redis.scripts import count_jobs
from waystation.bullmq.states import State
from waystation.bullmq.step_rules import duration_of
from waystation.bullmq.terms import MARK
from waystation.bullmq.upkeep import wake_overdue
from waystation.core import codec
from waystation.core.durations import Duration, DurationKeywords, milliseconds, seconds
from waystation.core.errors import InvalidOption, NoHandler
from waystation.core.store.commands import server_ms
from waystation.core.store.connection import Store, connect
from waystation.tasks import Next, Tasks
from waystation.testing.jobs import has_tasks
from waystation.testing.servers import embedded_server

Handlers: TypeAlias = Callable[[Any], Any] | Mapping[str, Callable[[Any], Any]]
"""A handler, or one for each name of a job."""

J = TypeVar("J", bound=JobFields[Any, Any])

_RUNNABLE: tuple[State, ...] = ("waiting", "prioritized", "active")
_WAITS = (b"wait:", b"take:", b"waits")
_LOOK_EVERY_S = 0.005


class Sandbox:
    """Queues, workers and a clock for one test; `sandbox()` opens one."""

    def __init__(self, url: str, store: Store, closing: AsyncExitStack) -> None:
        self.url = url
        """The server's URL, for code under test that opens queues of its own."""
        self._store = store
        self._closing = closing
        self._queues: dict[str, Queue] = {}
        self._prefixes: dict[str, str] = {}
        self._payloads: dict[str, PayloadOptions | None] = {}
        self._handlers: dict[str, Any] = {}
        self._failures: dict[tuple[str, str], dict[int, BaseException]] = {}
        self._has_run = False

    def queue(self, name: str) -> Queue:
        """The queue of this name."""
        if name not in self._queues:
            self._queues[name] = Queue(
                name, self._store, prefix=self.prefix(name), payloads=self.payloads(name)
            )
        return self._queues[name]

    @overload
    def handle(self, queue: Tasks, /) -> None: ...
    @overload
    def handle(
        self, queue: str, handlers: Handlers, *, payloads: PayloadOptions | None = None
    ) -> None: ...
    def handle(
        self,
        queue: str | Tasks,
        handlers: Handlers | None = None,
        *,
        payloads: PayloadOptions | None = None,
    ) -> None:
        """Let `run_all` run the jobs of a queue with a handler, or with one for each name.

        Given typed tasks, it runs those of all their queues, and until the sandbox is closed they
        add their jobs here, wherever their own store is. `payloads` are those of the queue.
        """
        if isinstance(queue, Tasks):
            self._take_over(queue)
            return
        if handlers is None:
            raise InvalidOption(f"the queue {queue} needs a handler, or tasks: box.handle(tasks)")
        if has_tasks(handlers):
            raise InvalidOption("tasks know their queues: box.handle(tasks)")
        self._handlers[queue] = handlers
        self._use(queue, payloads)

    def fail(
        self, queue: str, name: str, *, attempt: int = 1, error: BaseException | None = None
    ) -> None:
        """Let this attempt of jobs with this name fail, without running the handler."""
        failures = self._failures.setdefault((queue, name), {})
        failures[attempt] = error or ConnectionError(f"attempt {attempt} fails as the test asks")

    async def run_all(self, *, timeout: Duration = 30.0) -> None:
        """Run what can run now, retries that are due included; what is delayed stays.

        Raises `TimeoutError` when jobs still run after `timeout`, and `NoHandler` when jobs wait,
        but none of them in a queue that has a handler.
        """
        limit_s = seconds(timeout, "timeout")
        await self._check_handlers()
        limit = asyncio.timeout(limit_s)
        try:
            async with limit:
                await self._run_until_done()
        except TimeoutError:
            if not limit.expired():
                raise
            left = _listed(await self._runnable())
            raise TimeoutError(f"after {limit_s:g} s jobs still run or wait: {left}") from None

    async def _run_until_done(self) -> None:
        workers = [self._worker(name) for name in self._handlers]
        tasks = [asyncio.create_task(worker.run(signals=False)) for worker in workers]
        try:
            while await self._runnable() and not any(task.done() for task in tasks):
                await asyncio.wait(tasks, timeout=_LOOK_EVERY_S)
        finally:
            for worker in workers:
                worker.stop()
            await asyncio.gather(*tasks)

    async def advance(
        self, duration: Duration | None = None, **given: Unpack[DurationKeywords]
    ) -> None:
        """Turn the time of delays, retries, sleeps, time-outs and deadlines forward: `days=3`."""
        ms = milliseconds(duration_of(duration, given), "the duration")
        for name in self._queues:
            await _turn(self._store, self._keys(name), ms)

    async def added(self, queue: str, name: str | None = None) -> list[Job]:
        """The jobs of a queue in any state, the oldest first, or those with one name."""
        return oldest_first(await self.queue(queue).get_jobs(limit=None), name)

    async def assert_added(
        self, queue: str, name: str, data: Any = None, *, count: int | None = None
    ) -> list[Job]:
        """Fail unless such a job was added, or exactly `count` of them; returns them.

        `data` is what the job's data must be, or for an object what it must contain.
        """
        return such_jobs(await self.added(queue), queue, name, data, count)

    def _worker(self, queue: str) -> Worker:
        handlers = self._handlers[queue]
        if isinstance(handlers, Tasks):
            return handlers.worker(queue, self._store, poll=0.02, stalled_interval=1)
        if self._failures:
            handlers = self._failing(queue, handlers)
        return Worker(
            queue,
            handlers,
            self._store,
            payloads=self.payloads(queue),
            poll=0.02,
            stalled_interval=1,
        )

    def _take_over(self, tasks: Tasks) -> None:
        async def failing(job: Job, call_next: Next) -> Any:
            self._check(job.queue_name, job)
            return await call_next()

        self._closing.enter_context(tasks.at(self.url))
        self._closing.push_async_callback(tasks.close)
        tasks.layers.insert(0, failing)
        self._closing.callback(tasks.layers.remove, failing)
        for name in tasks.queues:
            self._prefixes[name] = tasks.prefix
            self._handlers[name] = tasks
            self._use(name, tasks.payloads)

    def _use(self, queue: str, payloads: PayloadOptions | None) -> None:
        self._payloads[queue] = payloads
        self._queues.pop(queue, None)
        self.queue(queue)

    def prefix(self, queue: str) -> str:
        """Internal: how the keys of a queue begin."""
        return self._prefixes.get(queue, PREFIX)

    def payloads(self, queue: str) -> PayloadOptions | None:
        """Internal: what becomes of the data and results of a queue."""
        return self._payloads.get(queue)

    def _keys(self, queue: str) -> QueueKeys:
        return QueueKeys(queue, prefix=self.prefix(queue))

    def _failing(self, queue: str, handlers: Any) -> Any:
        def check(job: Any) -> None:
            self._check(queue, job)

        if not isinstance(handlers, Mapping):
            return _checked_first(check, handlers)
        named = cast(Mapping[str, Callable[[Any], Any]], handlers)
        return {name: _checked_first(check, each) for name, each in named.items()}

    def _check(self, queue: str, job: Any) -> None:
        """Raise if the test wants this attempt to fail."""
        error = self._failures.get((queue, job.name), {}).get(job.attempt)
        if error is not None:
            raise error

    async def _check_handlers(self) -> None:
        """Refuse to do nothing while jobs wait that probably should run."""
        # A queue whose jobs are only counted needs no handler, once others have run.
        self._has_run = self._has_run or bool(await self._runnable())
        if self._has_run:
            return
        waiting = await self._waiting_without_handler()
        if waiting:
            known = ", ".join(map(repr, self._handlers)) or "none"
            raise NoHandler(
                f"nothing can run: jobs wait in {_listed(waiting)}, but queues with a handler are: "
                f"{known}; write box.handle({next(iter(waiting))!r}, handler), or box.handle(tasks)"
            )

    async def _runnable(self) -> dict[str, int]:
        """How many jobs can run now, or run, in each queue that has a handler."""
        return await self._ready([self._keys(name) for name in self._handlers])

    async def _waiting_without_handler(self) -> dict[str, int]:
        queues = [self._keys(name) for name in self._queues if name not in self._handlers]
        if not self._handlers:
            # Code under test may have opened queues of its own.
            found = cast(
                AsyncIterator[bytes], self._store.redis.scan_iter(match="*:meta", _type="HASH")
            )
            names = [key.decode("utf-8", "replace").rsplit(":", 2) async for key in found]
            queues += [QueueKeys(name, prefix=prefix) for prefix, name, _ in sorted(names)]
        return await self._ready(queues)

    async def _ready(self, queues: Iterable[QueueKeys]) -> dict[str, int]:
        ready: dict[str, int] = {}
        now = await server_ms(self._store.hot)
        for keys in queues:
            due = await self._store.ask("ZCOUNT", keys.delayed, "-inf", (now + 1) * 4096)
            counted = await count_jobs(self._store.hot, keys, states=_RUNNABLE)
            if many := due + sum(counted):
                ready[keys.name] = many
        return ready


def _listed(queues: Mapping[str, int]) -> str:
    return ", ".join(f"{name!r} ({many})" for name, many in queues.items())


def _checked_first(
    check: Callable[[Any], None], handler: Callable[[Any], Any]
) -> Callable[[Any], Any]:
    if inspect.iscoroutinefunction(handler):

        async def run_async(job: Any) -> Any:
            check(job)
            return await handler(job)

        return run_async

    def run(job: Any) -> Any:
        check(job)
        return handler(job)

    return run


@asynccontextmanager
async def opened(url: str | None = None) -> AsyncGenerator[Sandbox]:
    """Open a sandbox on an empty server of its own, or on the one at `url`. Internal."""
    if url is None:
        async with embedded_server() as own, opened(own) as box:
            yield box
        return
    async with await connect(url) as store, AsyncExitStack() as closing:
        yield Sandbox(url, store, closing)


def oldest_first(jobs: Iterable[J], name: str | None) -> list[J]:
    """Jobs in the order in which they were added, or those with one name. Internal."""
    found = [job for job in jobs if name in (None, job.name)]
    return sorted(found, key=lambda job: (job.created_ms, len(job.id), job.id))


def such_jobs(jobs: Sequence[J], queue: str, name: str, data: Any, count: int | None) -> list[J]:
    """Those of the jobs that a test wants; raises when there are none. Internal."""
    found = [job for job in jobs if job.name == name and _fits(job.data, data)]
    if (len(found) == count) if count is not None else found:
        return found
    wanted = "a job" if count is None else f"{count} jobs"
    about = "" if data is None else f" with {data!r}"
    there = "\n".join(f"  {job.name} {job.data!r}" for job in jobs) or "  none"
    raise AssertionError(
        f"wanted {wanted} {name!r}{about} in {queue!r}, found {len(found)} among:\n{there}"
    )


async def _turn(store: Store, keys: QueueKeys, ms: int) -> None:
    """Let what a queue's jobs wait for come nearer by this time."""
    for key, scale in ((keys.delayed, 4096), (keys.deadlines, 1)):
        due: Any = await store.redis.zrange(key, 0, -1, withscores=True)
        for id, score in cast(list[tuple[bytes, float]], due):
            # First the job: a worker may claim it as soon as it is due.
            await _turn_job(store, keys.of(id.decode()).job, ms)
            await store.ask("ZADD", key, "XX", score - ms * scale, id)
    await wake_overdue(store.hot, keys)
    # An idle worker looks again.
    await store.ask("ZADD", keys.marker, 0, "0")


async def _turn_job(store: Store, job: str, ms: int) -> None:
    """Let the ends of a job's waits come nearer, and its deadline, which counts from its making."""
    for field, value in (await hash_at(store.hot, job)).items():
        until, _, rest = value.partition(b" ")
        if field.startswith(_WAITS) and until.isdigit():
            await store.ask("HSET", job, field, b"%d %s" % (max(int(until) - ms, 0), rest))
        elif field == b"opts" and MARK in value:
            await store.ask("HSET", job, field, _sooner(value, ms))


def _sooner(options: bytes, ms: int) -> bytes:
    stored = codec.decode(options)
    terms: dict[str, int] = stored["terms"]
    stored["terms"] = {
        name: max(value - ms, 1) if name.startswith("deadline") else value
        for name, value in terms.items()
    }
    return codec.encode(stored)


def _fits(data: Any, wanted: Any) -> bool:
    if wanted is None or data == wanted:
        return True
    if not isinstance(data, dict) or not isinstance(wanted, dict):
        return False
    known, asked = cast(dict[str, Any], data), cast(dict[str, Any], wanted)
    return all(name in known and known[name] == value for name, value in asked.items())
