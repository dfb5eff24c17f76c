"""Dispatching: from a job to the call of its task's function. Internal."""

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from functools import partial
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from waystation.bullmq import Job, Store, SyncJob
from waystation.bullmq.job import read_results_with
from waystation.bullmq.worker import leave_to_another
from waystation.core.errors import InvalidOption, NoHandler, TimedOut, UnreadableData
from waystation.core.runtime.handlers import Handler, handler_of
from waystation.core.runtime.handlers.time_limit import TimeLimit
from waystation.tasks.dependencies import JobScope, Lifespan, Place
from waystation.tasks.payload import MARK
from waystation.tasks.task import Data, Task, payload_of, running_with, tasks_of

if TYPE_CHECKING:
    from waystation.tasks.tasks import Middleware, Tasks

_call: ContextVar[Callable[[SyncJob], Any]] = ContextVar("call")
"""The call that a thread has to make."""


class Dispatcher(Handler[Job]):
    """Runs each job as its task says."""

    def __init__(self, tasks: "Tasks", named: Mapping[str, Task[..., Any]]) -> None:
        super().__init__(self._run)
        self._tasks = tasks
        self._named = named
        self._threads: Handler[Any] | None = None
        self._processes: dict[str, Handler[Any]] = {}
        self._lifespan: Lifespan | None = None
        for task in named.values():
            payload_of(task)
            if task.process:
                InProcess.check(task)

    async def open(self, store: Store, ended: Callable[[], None] = lambda: None) -> None:
        """Make everything that the tasks depend on as long as there are workers.

        Should it end before them, `ended` is called.
        """
        self._lifespan = lifespan = await self._tasks.lifespans.take(Place(store))
        lifespan.serving.add_done_callback(lambda _: ended())
        for task in self._named.values():
            for each in task.dependencies.values():
                if each.scope == "worker":
                    await lifespan.value(each)

    async def leave(self, store: Store) -> None:
        """Let go of it; the last worker has it cleaned up."""
        if self._lifespan is not None:
            self._lifespan = None
            await self._tasks.lifespans.give_back(Place(store))

    async def close(self) -> None:
        """Let go of threads and processes."""
        for each in self._handlers():
            await each.close()

    async def _run(self, job: Job) -> Any:
        task = self._named.get(job.name)
        if task is None:
            known = ", ".join(sorted(self._named))
            raise NoHandler(f"no handler for jobs named {job.name!r}; there are: {known}")
        data = _data_of(job.name, job.data)
        running_with.set(self._tasks.payloads)
        read_results_with(job, self._tasks.child_result)
        self._tasks.restore_context(_mark(data).get("context") or {})
        call = partial(self._attempt, task, job, data)
        for each in reversed(self._tasks.layers):
            call = partial(_around, each, job, call)
        return payload_of(task).write_result(await call())

    async def _attempt(self, task: Task[..., Any], job: Job, data: Data) -> Any:
        if (version := _version(data)) > task.version:
            # During a deployment old workers meet new jobs; those are for the new workers.
            await leave_to_another(
                job, f"the data has version {version}, this worker knows {task.version}"
            )
        # A job that was added by its task has the limit itself; one of another producer has not.
        limit = TimeLimit(task.timeout if job.options.terms.timeout is None else None)
        try:
            async with limit:
                return await self._call(task, job, data)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise TimedOut(f"{task.name} was stopped after {task.timeout:g} s") from error

    async def _call(self, task: Task[..., Any], job: Job, data: Data) -> Any:
        if task.process:
            return await self._in_a_process(task).run(job)
        arguments = arguments_of(task, data)
        if not task.dependencies:
            return await self._called(task, job, arguments)
        lifespan = cast(Lifespan, self._lifespan)
        async with JobScope(lifespan, job, self._tasks.overrides) as scope:
            provided = await scope.values(task.dependencies)
            return await self._called(task, job, {**arguments, **provided})

    async def _called(self, task: Task[..., Any], job: Job, arguments: Data) -> Any:
        if task.is_async:
            return await _applied(task, arguments)
        wants = [name for name, each in task.dependencies.items() if each.provider is SyncJob]
        _call.set(lambda seen: _applied(task, {**arguments, **dict.fromkeys(wants, seen)}))
        if self._threads is None:
            self._threads = handler_of(_in_thread)
        return await self._threads.run(job)

    def _in_a_process(self, task: Task[..., Any]) -> Handler[Any]:
        if task.name not in self._processes:
            self._processes[task.name] = handler_of(InProcess(task), process=True)
        return self._processes[task.name]

    def _handlers(self) -> list[Handler[Any]]:
        return [*self._processes.values(), *([self._threads] if self._threads else [])]


class InProcess:
    """A task as another process finds it: by its module and its name there."""

    def __init__(self, task: Task[..., Any]) -> None:
        self._module, self._name = _place(task)

    @classmethod
    def check(cls, task: Task[..., Any]) -> None:
        """Refuse a task that another process would not find."""
        module, name = _place(task)
        try:
            found: Any = attrgetter(name)(import_module(module))
        except (ImportError, AttributeError):
            found = None
        if found is not task:
            raise InvalidOption(
                f"{task.name} runs in a process, so it must be a task of a module, "
                f"got {module}:{name}"
            )

    def __call__(self, job: SyncJob) -> Any:
        """Run it on a job."""
        task: Task[..., Any] = attrgetter(self._name)(import_module(self._module))
        data = _data_of(job.name, job.data)
        tasks_of(task).restore_context(_mark(data).get("context") or {})
        return _applied(task, arguments_of(task, data))


def arguments_of(task: Task[..., Any], data: Data) -> Data:
    """The arguments of a call, from data of the task's version or an older one."""
    version = _version(data)
    given = {name: value for name, value in data.items() if name != MARK}
    if version < task.version and task.upgrade is not None:
        try:
            given = task.upgrade(given, version)
        except Exception as error:
            raise UnreadableData(
                f"{task.name} cannot upgrade data of version {version}: "
                f"{type(error).__name__}: {error}"
            ) from error
    return payload_of(task).read(given)


def _applied(task: Task[..., Any], arguments: Data) -> Any:
    places = task.signature.parameters.values()
    first = [
        arguments.get(each.name, each.default)
        for each in places
        if each.kind is each.POSITIONAL_ONLY
    ]
    rest = {
        each.name: arguments[each.name]
        for each in places
        if each.kind is not each.POSITIONAL_ONLY and each.name in arguments
    }
    return task.function(*first, **rest)


def _in_thread(seen: SyncJob) -> Any:
    return _call.get()(seen)


async def _around(middleware: "Middleware", job: Job, call: Callable[[], Awaitable[Any]]) -> Any:
    return await middleware(job, call)


def _data_of(name: str, data: Any) -> Data:
    if not isinstance(data, dict):
        # Its value may be a secret, and errors are stored as they are.
        kind = type(data).__name__
        raise UnreadableData(f"{name} takes an object with its arguments, got a {kind}")
    return cast(Data, data)


def _mark(data: Data) -> Data:
    found = data.get(MARK)
    return cast(Data, found) if isinstance(found, dict) else {}


def _version(data: Data) -> int:
    found = _mark(data).get("version", 1)
    return found if isinstance(found, int) else 1


def _place(task: Task[..., Any]) -> tuple[str, str]:
    return task.function.__module__, task.function.__qualname__
