"""Tasks: functions whose calls can be added to a queue as jobs."""

import copy
import inspect
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property, update_wrapper
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NamedTuple,
    ParamSpec,
    TypeAlias,
    TypeVar,
    Unpack,
    cast,
    overload,
)

import msgspec

from waystation.bullmq import (
    Duration,
    FlowJob,
    FlowNode,
    Job,
    JobKeywords,
    JobOptions,
    NewJob,
    PayloadOptions,
    SyncJob,
)
from waystation.bullmq.redis.packing import merged
from waystation.core.durations import seconds
from waystation.core.errors import InvalidInput, InvalidOption
from waystation.core.options import at_least, of_kind
from waystation.tasks import dependencies
from waystation.tasks.dependencies import Dependency
from waystation.tasks.groups import GroupOf, GroupRule, group_of_calls
from waystation.tasks.keywords import TaskKeywords
from waystation.tasks.payload import MARK, Payload

if TYPE_CHECKING:
    from waystation.sync.bound import FlowJob as SyncFlowJob
    from waystation.tasks.tasks import Tasks

P = ParamSpec("P")
R = TypeVar("R")

Data: TypeAlias = dict[str, Any]
Upgrade: TypeAlias = Callable[[Data, int], Data]
"""Brings data of an older version, whose number it gets, to the version of the task."""


running_with: ContextVar[PayloadOptions | None] = ContextVar("running_with", default=None)
"""The payload options of the worker whose handler this is. Internal."""


class TaskTerms(NamedTuple):
    """What a declaration says about a task. Internal."""

    name: str
    queue: str
    options: JobOptions
    process: bool = False
    version: int = 1
    upgrade: Upgrade | None = None
    group_of: GroupOf | None = None


class Task(Generic[P, R]):
    """A function whose calls can be jobs: `add` adds one, calling the task itself runs it here."""

    def __init__(self, tasks: "Tasks", function: Callable[P, Any], terms: TaskTerms) -> None:
        """Internal: `Tasks.task` makes it."""
        self._tasks = tasks
        self._options = terms.options
        self.function = function
        self.name = terms.name
        """The name of its jobs."""
        self.queue = terms.queue
        """The name of their queue."""
        self.version = at_least("version", terms.version, 1)
        """The version of the data that it takes."""
        self.upgrade = terms.upgrade
        timeout = terms.options.timeout
        self.timeout = None if timeout is None else seconds(timeout, "timeout", above=0)
        """Seconds that one attempt may take."""
        self.process = terms.process
        """True when it runs in a process of its own."""
        self.is_async = inspect.iscoroutinefunction(function)
        self.dependencies: dict[str, Dependency] = dependencies.dependencies_of(function)
        """What the worker provides, by parameter."""
        self._check()
        self._rule = self._rule_of(terms.group_of)
        update_wrapper(cast(Any, self), function, updated=())

    # Adding

    async def add(self, *args: P.args, **kwargs: P.kwargs) -> "TaskJob[R]":
        """Add a job that calls the function with these arguments."""
        [job] = await self._tasks.add_many([self.bind(*args, **kwargs)])
        return job

    async def add_many(self, calls: "Iterable[Call[R]]") -> "list[TaskJob[R]]":
        """Add a job for each call, which `bind` makes; a few hundred at a time."""
        return await self._tasks.add_many(calls)

    async def call(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Add a job, wait until a worker has run it, and return its result."""
        return await (await self.add(*args, **kwargs)).result()

    @overload
    def call_in(
        self, job: Job[Any, Any], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, R]: ...
    @overload
    def call_in(self, job: SyncJob[Any, Any], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    def call_in(
        self, job: Job[Any, Any] | SyncJob[Any, Any], /, *args: P.args, **kwargs: P.kwargs
    ) -> Any:
        """Call it as a step of a job that runs: a child is added once, and its result returned.

        The job leaves its worker until the child has ended. Raises `JobFailed` when the child fails
        for good.
        """
        call = self.bind(*args, **kwargs)
        data = call.stamped()
        if isinstance(job, SyncJob):
            sealed = self._sealed_alone(data)
            return _checked_result(self, self._run_child(job, sealed, call.options))
        return self._call_soon(job, data, call.options)

    async def _call_soon(self, job: Job[Any, Any], data: Data, options: JobOptions) -> R:
        sealing = self._tasks.sealing
        data = await sealing.aside(lambda: self._sealed_alone(data))
        return _checked_result(self, await self._run_child(job, data, options))

    def _run_child(self, job: Any, data: Data, options: JobOptions) -> Any:
        given = cast(JobKeywords, msgspec.structs.asdict(options))
        return job.run_child(self.name, data, queue=self.queue, **given)

    def _sealed_alone(self, data: Data) -> Data:
        """The data of a child as it is, if its parent's worker seals as we do; else sealed.

        That worker does so when it adds the child, and not each time that the parent comes here.
        """
        if running_with.get() == self._tasks.payloads:
            return data
        return self._tasks.sealing.sealed(self.queue, data)

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> "Call[R]":
        """A checked call, to be added with others, in a flow, or by a schedule."""
        data, options = self._payload.bind(args, kwargs), self._options
        if self._rule is not None:
            group = self._rule.group(self._payload.read(data))
            options = msgspec.structs.replace(options, group=group)
        return Call(self, data, options)

    def with_options(self, **given: Unpack[TaskKeywords]) -> "Task[P, R]":
        """The same task, whose jobs get these options."""
        plain, group_of = group_of_calls(given)
        changed = copy.copy(self)
        changed._options = merged(self._options, plain, self._options)
        if "group" in given:
            changed._rule = changed._rule_of(group_of)
        return changed

    @property
    def sync(self) -> "BlockingTask[P, R]":
        """The same task for code that waits: `send.sync.add(to="ada")`."""
        return BlockingTask(self)

    # Looking up

    async def wait(self, job_id: str, timeout: Duration | None = None) -> R:
        """Wait until a job of this task is finished, and return its result.

        Raises `JobFailed` when it fails for good, and `TimeoutError` after `timeout`.
        """
        plain = await self._tasks.queue(self.queue).wait(job_id, timeout)
        if not self._tasks.sealing.seals:
            # Its queue opens nothing, and somebody with keys may have sealed it.
            plain = await self._tasks.sealing.opened_soon(plain)
        return _checked_result(self, plain)

    def result_of(self, stored: Any) -> R:
        """A stored result as the function's annotation promises it."""
        return _checked_result(self, self._tasks.opened(stored))

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its jobs' data, for producers in any language."""
        return self._payload.schema()

    def result_schema(self) -> dict[str, Any]:
        """The JSON Schema of its results."""
        return self._payload.result_schema()

    # Internal

    @cached_property
    def _payload(self) -> Payload:
        # Not when it is declared: annotations may name what the module defines later.
        return Payload(self.name, self.function)

    @property
    def not_a_handler(self) -> str:
        """What to write where a task was given for a handler, which takes a job. Internal."""
        return (
            f"{self.name} is a task, which takes its own arguments and no job: "
            f"tasks.worker({self.queue!r}) runs it, or `waystation tasks work MODULE:tasks`"
        )

    def _check(self) -> None:
        function, name = self.function, self.name
        if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
            raise InvalidOption(f"a task is a function that returns, but {name} yields")
        for each in inspect.signature(function).parameters.values():
            if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
                raise InvalidOption(f"{name} takes {each}, which cannot be checked: name each one")
        dependencies.check(name, self.dependencies, is_async=self.is_async)
        if self.process and (self.is_async or self.dependencies):
            raise InvalidOption(
                f"{name} runs in a process, so it must be a plain function without dependencies"
            )
        if self.process and "<locals>" in function.__qualname__:
            raise InvalidOption(
                f"{name} runs in a process, so it must be a task of a module, got "
                f"{function.__qualname__}"
            )
        if self.upgrade is not None and self.version == 1:
            raise InvalidOption(f"{name} can upgrade older data, so its version must be above 1")

    def _rule_of(self, group_of: GroupOf | None) -> GroupRule | None:
        if group_of is None:
            return None
        parameters = inspect.signature(self.function).parameters.values()
        return GroupRule(self.name, group_of, parameters)

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = self.signature.bind_partial(*args, **kwargs).arguments
        if missing := [each for each in self.dependencies if each not in given]:
            raise InvalidInput(
                f"{self.name} was called without a worker, which provides {', '.join(missing)}: "
                "pass them, or add a job"
            )
        return self.function(*args, **kwargs)

    @cached_property
    def signature(self) -> inspect.Signature:
        """The parameters of the function."""
        return inspect.signature(self.function)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} of queue {self.queue}>"


class AsyncTask(Task[P, R]):
    """A task over an `async def` function."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Run the function here and now, without a queue."""
        return self._called(args, kwargs)


class PlainTask(Task[P, R]):
    """A task over a plain function, which runs in a thread or a process of the worker."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function here and now, without a queue."""
        return self._called(args, kwargs)


class BlockingTask(Generic[P, R]):
    """A task for code without an event loop, in any thread and after any fork."""

    def __init__(self, task: Task[P, R]) -> None:
        self._task = task
        self._tasks = tasks_of(task)

    def add(self, *args: P.args, **kwargs: P.kwargs) -> "BlockingTaskJob[R]":
        """Add a job that calls the function with these arguments."""
        job = self._task.bind(*args, **kwargs).new_job()
        queue = self._tasks.sync.queue(self._task.queue)
        return BlockingTaskJob(self._task, queue.add(job.name, job.data, job.options))

    def add_many(self, calls: "Iterable[Call[R]]") -> "list[BlockingTaskJob[R]]":
        """Add a job for each call, which `bind` makes; a few hundred at a time."""
        return self._tasks.sync.add_many(calls)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Add a job, wait until a worker has run it, and return its result."""
        return self.add(*args, **kwargs).result()

    def wait(self, job_id: str, timeout: Duration | None = None) -> R:
        """Wait until a job of this task is finished, and return its result.

        Raises `JobFailed` when it fails for good, and `TimeoutError` after `timeout`.
        """
        plain = self._tasks.sync.queue(self._task.queue).wait(job_id, timeout)
        if not self._tasks.sealing.seals:
            plain = self._tasks.opened(plain)
        return _checked_result(self._task, plain)


class Call(Generic[R]):
    """A checked call of a task."""

    def __init__(self, task: Task[..., R], data: Data, options: JobOptions) -> None:
        self.task = task
        self.data = data
        self.options = options

    def after(self, *children: "Call[Any] | FlowNode") -> "CallNode[R]":
        """The call as the parent of others, which run first; for `Tasks.add_flow`."""
        inner = [each if isinstance(each, FlowNode) else each.after() for each in children]
        return self._node(inner)

    def new_job(self) -> NewJob:
        """The job to be added; context and version are taken down now."""
        task, data, sealing = self.task, self.stamped(), tasks_of(self.task).sealing
        options = sealing.unique(self.options, task.name, data)
        return NewJob(task.name, sealing.sealed(task.queue, data), options)

    def _node(self, children: Sequence[FlowNode]) -> "CallNode[R]":
        return CallNode(
            task=self.task,
            name=self.task.name,
            queue=self.task.queue,
            data=self.stamped(),
            options=self.options,
            children=children,
        )

    def stamped(self) -> Data:
        """The data with context and version as they are now. Internal."""
        mark: Data = {}
        if self.task.version > 1:
            mark["version"] = self.task.version
        if context := tasks_of(self.task).context_now():
            mark["context"] = context
        return {**self.data, MARK: mark} if mark else self.data


def by_their_queues(calls: "Iterable[Call[R]]") -> "tuple[list[Call[R]], dict[str, list[int]]]":
    """The calls, and the places of those of each queue. Internal."""
    all_calls, by_queue = list(calls), dict[str, list[int]]()
    for place, call in enumerate(all_calls):
        of_kind("each of calls", call, Call)
        by_queue.setdefault(call.task.queue, []).append(place)
    return all_calls, by_queue


@dataclass(frozen=True, init=False)
class CallNode(FlowNode, Generic[R]):
    """A call in a flow, with those it waits for; `Call.after` makes it."""

    task: Task[..., R]
    """The task that is called."""

    def __init__(self, task: Task[..., R], **given: Any) -> None:
        """Internal: calls make it."""
        super().__init__(**given)
        object.__setattr__(self, "task", task)
        # What seals its data when it is added, whoever adds it.
        sealing = tasks_of(task).sealing
        object.__setattr__(self, "_sealing", sealing if sealing.seals else None)


class TaskJob(Generic[R]):
    """A job of a task that was added."""

    def __init__(self, task: Task[..., R], job: Job[Any, Any]) -> None:
        self.task = task
        self.job = job
        """The job as bullmq has it."""

    @property
    def id(self) -> str:
        """The job's id."""
        return self.job.id

    async def result(self, timeout: Duration | None = None) -> R:
        """Wait until the job is finished, and return its result.

        Raises `JobFailed` when it fails for good, and `TimeoutError` after `timeout`.
        """
        return await self.task.wait(self.job.id, timeout)

    def __repr__(self) -> str:
        return f"<TaskJob {self.job.id} of {self.task.name}>"


class TaskFlow(TaskJob[R]):
    """A job of a task that was added with those it waits for; its result is that of the flow."""

    def __init__(self, task: Task[..., R], flow: FlowJob) -> None:
        super().__init__(task, flow.job)
        self.children = flow.children
        """The jobs that it waits for, as bullmq has them."""


class BlockingTaskJob(Generic[R]):
    """A job of a task that was added by code that waits."""

    def __init__(self, task: Task[..., R], job: SyncJob[Any, Any]) -> None:
        self.task = task
        self.job = job
        """The job as bullmq has it."""

    @property
    def id(self) -> str:
        """The job's id."""
        return self.job.id

    def result(self, timeout: Duration | None = None) -> R:
        """Wait until the job is finished, and return its result.

        Raises `JobFailed` when it fails for good, and `TimeoutError` after `timeout`.
        """
        return self.task.sync.wait(self.job.id, timeout)

    def __repr__(self) -> str:
        return f"<BlockingTaskJob {self.job.id} of {self.task.name}>"


class BlockingTaskFlow(BlockingTaskJob[R]):
    """A job of a task that code that waits has added with those it waits for."""

    def __init__(self, task: Task[..., R], flow: "SyncFlowJob") -> None:
        super().__init__(task, flow.job)
        self.children = flow.children
        """The jobs that it waits for, as bullmq has them."""


def tasks_of(task: Task[..., Any]) -> "Tasks":
    """The collection that a task belongs to. Internal."""
    return task._tasks  # pyright: ignore[reportPrivateUsage]


def payload_of(task: Task[..., Any]) -> Payload:
    """What a task takes and returns. Internal."""
    return task._payload  # pyright: ignore[reportPrivateUsage]


def _checked_result(task: Task[..., R], plain: Any) -> R:
    """A result that is opened already, as the function's annotation promises it."""
    try:
        return payload_of(task).read_result(plain)
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise InvalidInput(f"{task.name} does not return such a result: {error}") from None
