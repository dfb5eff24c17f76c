"""Jobs in memory: run handlers without a store."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast

from waystation.bullmq import Job
from waystation.core.durations import Duration
from waystation.core.errors import InvalidInput, InvalidOption, NoHandler
from waystation.core.runtime.handlers import Handler, handler_of
from waystation.core.runtime.worker import Worker, WorkerOptions
from waystation.tasks import Task, Tasks
from waystation.testing.memory import MemorySource

Data = TypeVar("Data")

JobState: TypeAlias = Literal["waiting", "completed", "failed"]

_numbers = itertools.count(1)


class MemoryJob(Generic[Data]):
    """A job as a handler sees it, and after the run what became of it."""

    def __init__(
        self,
        data: Data,
        *,
        name: str = "job",
        id: str | None = None,
        max_attempts: int = 1,
    ) -> None:
        self.id = id or str(next(_numbers))
        self.name = name
        self.type = name
        """The name by which routing knows it."""
        self.data = data
        self.max_attempts = max_attempts
        self.attempt = 0
        """The number of the current attempt; 1 for the first."""
        self.state: JobState = "waiting"
        self.result: Any = None
        """The handler's return value, when the job is completed."""
        self.error: BaseException | None = None
        """The error of the last attempt that failed."""
        self.logs: list[str] = []
        self.progress: Any = None

    def log(self, line: str) -> Awaitable[None]:
        """Add a line to the job's log; async handlers await this, sync ones just call it."""
        self.logs.append(line)
        return _RECORDED

    def update_progress(self, progress: Any) -> Awaitable[None]:
        """Set the progress; async handlers await this, sync ones just call it."""
        self.progress = progress
        return _RECORDED

    def __getattr__(self, name: str) -> Any:
        if hasattr(Job, name):
            raise AttributeError(
                f"a job in memory has no {name}, which needs a store: "
                "run the handler in a sandbox, `async with sandbox() as box`"
            )
        raise AttributeError(f"a job has no {name}")

    def __repr__(self) -> str:
        return f"<MemoryJob {self.id} {self.name!r}: {self.state}>"


class _Recorded:
    """An awaitable that has nothing to wait for."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


_RECORDED = _Recorded()


async def run_jobs(
    handlers: Callable[[Any], Any] | Mapping[str, Callable[[Any], Any]],
    *jobs: MemoryJob[Any],
    concurrency: int = 1,
    timeout: Duration | None = None,
) -> list[MemoryJob[Any]]:
    """Run a handler, or one for each name, until every job is completed or has failed for good.

    The handlers run as in a worker: `async def` on the loop, plain `def` in a thread, each for
    `timeout` at most. A job that fails runs again at once while it has attempts left.
    """
    for job in jobs:
        if not isinstance(job, MemoryJob):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"run_jobs takes jobs, got {job!r}; make one: MemoryJob({job!r})")
    source = MemorySource()
    entries = {job: source.add(job, attempts=job.max_attempts) for job in jobs}
    options = WorkerOptions(concurrency=concurrency, timeout=timeout, poll=0.01)
    worker = Worker[MemoryJob[Any]](source, _Counting(handlers), options)
    running = asyncio.create_task(worker.run())
    try:
        while any(each.state not in ("completed", "failed") for each in source.entries.values()):
            done, _ = await asyncio.wait([running], timeout=0.001)
            if done:
                break
    finally:
        worker.stop()
        await running
    for job, id in entries.items():
        entry = source.entries[id]
        job.state = "completed" if entry.state == "completed" else "failed"
        job.result, job.error = entry.result, entry.error
    return list(jobs)


def has_tasks(handlers: Any) -> bool:
    """Whether tasks stand where handlers of jobs are wanted. Internal."""
    if isinstance(handlers, Mapping):
        return any(map(has_tasks, cast(Mapping[str, Any], handlers).values()))
    return isinstance(handlers, Task | Tasks)


class _Counting(Handler[MemoryJob[Any]]):
    """The handler for each job's name; counts the attempts."""

    def __init__(
        self,
        handlers: Callable[[Any], Any] | Mapping[str, Callable[[Any], Any]],
    ) -> None:
        super().__init__(self._run)
        self._any: Handler[Any] | None = None
        self._by_name: dict[str, Handler[Any]] = {}
        if has_tasks(handlers) or not (callable(handlers) or isinstance(handlers, Mapping)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidOption(
                f"run_jobs takes a handler, or one for each name, got {handlers!r}; "
                "tasks run in a sandbox, and a task can be called as the function it is"
            )
        if callable(handlers):
            self._any = handler_of(handlers)
        else:
            for name, each in handlers.items():
                self._by_name[name] = handler_of(each)

    async def _run(self, job: MemoryJob[Any]) -> Any:
        job.attempt += 1
        handler = self._any or self._by_name.get(job.name)
        if handler is None:
            known = ", ".join(sorted(self._by_name))
            raise NoHandler(f"no handler for jobs named {job.name!r}; there are: {known}")
        return await handler.run(job)

    async def close(self) -> None:
        for each in (*self._by_name.values(), *([self._any] if self._any else [])):
            await each.close()
