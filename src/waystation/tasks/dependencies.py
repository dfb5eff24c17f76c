"""Dependencies: parameters of a task that the worker provides."""

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self, TypeAlias, TypeVar, cast, overload

import msgspec

from waystation.bullmq import Job, SyncJob
from waystation.bullmq.source import NO_FAILURES
from waystation.core.errors import InvalidOption, WorkError
from waystation.core.store.connection import Store
from waystation.core.telemetry.logs import get_logger

T = TypeVar("T")
_log = get_logger(__name__)

Provider: TypeAlias = Callable[..., Any]
"""Makes a dependency: a function or coroutine that returns it, or a generator that yields it once
and then cleans up."""
Scope: TypeAlias = Literal["worker", "job"]
"""How long a dependency lives: as long as the workers of the process, or for one job."""

_OF_A_JOB = (Job, SyncJob)
_ENDED = "what the tasks depend on has ended, because a provider failed: the worker ends, too"


class Dependency(msgspec.Struct, frozen=True):
    """The default of a parameter that the worker provides."""

    provider: Provider
    """The function that makes it."""
    scope: Scope
    """Made once for a `worker`'s process, or for each `job`."""


@overload
def depends(provider: Callable[..., AsyncIterator[T]], *, scope: Scope = "worker") -> T: ...
@overload
def depends(  # pyright: ignore[reportOverlappingOverload]
    provider: Callable[..., Iterator[T]], *, scope: Scope = "worker"
) -> T: ...
@overload
def depends(  # pyright: ignore[reportOverlappingOverload]
    provider: Callable[..., Awaitable[T]], *, scope: Scope = "worker"
) -> T: ...
@overload
def depends(provider: Callable[..., T], *, scope: Scope = "worker") -> T: ...
def depends(provider: Provider, *, scope: Scope = "worker") -> Any:
    """The default of a parameter that the worker fills in with what `provider` makes.

    It is made once for the workers of a process, or with `scope="job"` for each job. A generator
    yields it once, and goes on when it is no longer needed. Parameters of the provider may depend
    on others. `Job`, `SyncJob` and `Store` provide the job that runs and the worker's store.
    """
    if not callable(provider):
        raise InvalidOption(f"a dependency needs a function that makes it, got {provider!r}")
    if scope not in ("worker", "job"):
        raise InvalidOption(f"scope must be worker or job, got {scope!r}")
    return Dependency(provider, "job" if provider in _OF_A_JOB else scope)


def dependencies_of(function: Callable[..., Any]) -> dict[str, Dependency]:
    """The parameters of a function that somebody has to provide."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        # A class written in C does not say what it takes.
        return {}
    return {each.name: each.default for each in parameters if isinstance(each.default, Dependency)}


def check(name: str, wanted: Mapping[str, Dependency], *, is_async: bool) -> None:
    """Refuse dependencies that cannot be provided, before any job needs them."""
    for parameter, each in wanted.items():
        wrong = SyncJob if is_async else Job
        if each.provider is wrong:
            right = Job if is_async else SyncJob
            kind = "async def" if is_async else "plain"
            raise InvalidOption(f"{name} is {kind}, so {parameter} must depend on {right.__name__}")
        _check_scopes(name, each, ())


def _check_scopes(name: str, dependency: Dependency, above: tuple[Provider, ...]) -> None:
    provider = dependency.provider
    if provider in above:
        raise InvalidOption(f"{name}: {_named(provider)} depends on itself")
    if provider in (*_OF_A_JOB, Store):
        return
    for inner in dependencies_of(provider).values():
        if inner.provider is SyncJob:
            raise InvalidOption(f"{name}: {_named(provider)} runs on the loop: depend on Job")
        if dependency.scope == "worker" and inner.scope == "job":
            raise InvalidOption(
                f"{name}: {_named(provider)} lives as long as the worker, "
                f"but depends on {_named(inner.provider)}, which lives for one job"
            )
        _check_scopes(name, inner, (*above, provider))


def _named(provider: Provider) -> str:
    return getattr(provider, "__name__", repr(provider))


class Place(NamedTuple):
    """Where the workers of a process are that share what they depend on. Internal."""

    store: Store

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and str(self.store.address) == str(other.store.address)

    def __hash__(self) -> int:
        return hash(str(self.store.address))


class Lifespan:
    """What lives as long as the workers of a process; opened and closed by one task."""

    # One task, because a provider may hold a task group or a timeout while it yields.

    def __init__(self, store: Store, overrides: Mapping[Provider, Provider]) -> None:
        self._overrides = overrides
        # Of its own, because it may outlive the worker that came first.
        self._store = store.clone()
        self._made: dict[Provider, Any] = {Store: self._store}
        self._wanted: asyncio.Queue[tuple[Dependency, asyncio.Future[Any]] | None]
        self._wanted = asyncio.Queue()
        self.serving = asyncio.create_task(self._serve())

    async def value(self, dependency: Dependency) -> Any:
        """The value of a dependency, made when it is first asked for."""
        if self.serving.done():
            raise WorkError(_ENDED) from self.serving.exception()
        provider = self._overrides.get(dependency.provider, dependency.provider)
        if provider in self._made:
            return self._made[provider]
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._wanted.put_nowait((dependency, answer))
        return await answer

    async def close(self) -> None:
        """Clean up in reverse order."""
        self._wanted.put_nowait(None)
        await self.serving

    async def _serve(self) -> None:
        try:
            await self._make_and_clean_up()
        finally:
            while not self._wanted.empty():
                wanted = self._wanted.get_nowait()
                if wanted is not None and not wanted[1].done():
                    wanted[1].set_exception(WorkError(_ENDED))

    async def _make_and_clean_up(self) -> None:
        async with self._store, AsyncExitStack() as stack:
            while wanted := await self._wanted.get():
                dependency, answer = wanted
                try:
                    value = await self._resolve(dependency, stack)
                except Exception as error:
                    if not answer.done():
                        answer.set_exception(error)
                except BaseException:
                    # One that was made before has failed, with a task group around all the others.
                    if not answer.done():
                        answer.set_exception(WorkError(_ENDED))
                    raise
                else:
                    if not answer.done():
                        answer.set_result(value)

    async def _resolve(self, dependency: Dependency, stack: AsyncExitStack) -> Any:
        provider = self._overrides.get(dependency.provider, dependency.provider)
        if provider not in self._made:
            arguments = {
                name: await self._resolve(inner, stack)
                for name, inner in dependencies_of(provider).items()
            }
            self._made[provider] = await enter(stack, provider, arguments)
        return self._made[provider]


class JobScope:
    """What one job needs; left when its handler has ended, which ends the job as it would alone."""

    def __init__(
        self, lifespan: Lifespan, job: Job, overrides: Mapping[Provider, Provider]
    ) -> None:
        self._lifespan = lifespan
        self._stack = _Uncaught()
        self._overrides = overrides
        self._job = job
        self._made: dict[Provider, Any] = {Job: job}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._stack.__aexit__(kind, error, trace)
        except BaseException as other:
            if error is None or error is other or not _stands(error):
                raise
            _log.warning("provider_failed", error=other, job_id=self._job.id)

    async def values(self, wanted: Mapping[str, Dependency]) -> dict[str, Any]:
        """Everything that a function depends on, except the job of a plain one."""
        return {
            name: await self._value(each)
            for name, each in wanted.items()
            if each.provider is not SyncJob
        }

    async def _value(self, dependency: Dependency) -> Any:
        provider = self._overrides.get(dependency.provider, dependency.provider)
        if dependency.scope == "worker":
            return await self._lifespan.value(dependency)
        if provider not in self._made:
            arguments = await self.values(dependencies_of(provider))
            self._made[provider] = await enter(self._stack, provider, arguments)
        return self._made[provider]


class _Uncaught(AsyncExitStack):
    """What a job needs, each told of an error of the handler.

    One that catches it, to roll back, keeps it neither from the others, which roll back too, nor
    from the worker.
    """

    async def enter_async_context(self, cm: AbstractAsyncContextManager[T, Any]) -> T:
        value = await cm.__aenter__()

        async def leave(*raised: Any) -> None:
            await cm.__aexit__(*raised)

        self.push_async_exit(leave)
        return value

    def enter_context(self, cm: AbstractContextManager[T, Any]) -> T:
        value = cm.__enter__()

        def leave(*raised: Any) -> None:
            cm.__exit__(*raised)

        self.push(leave)
        return value


def _stands(error: BaseException) -> bool:
    """Whether a handler's end is no failure, so that no error of a provider takes its place."""
    if isinstance(error, asyncio.CancelledError):
        # By somebody who still waits for it, and not by a time limit or a group of the provider.
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return not isinstance(error, Exception) or isinstance(error, NO_FAILURES)


async def enter(stack: AsyncExitStack, provider: Provider, arguments: dict[str, Any]) -> Any:
    """Call a provider; what it has to clean up is left to the stack."""
    if inspect.isasyncgenfunction(provider):
        manager = contextlib.asynccontextmanager(provider)
        return await stack.enter_async_context(manager(**arguments))
    if inspect.isgeneratorfunction(provider):
        plain = contextlib.contextmanager(cast(Callable[..., Generator[Any]], provider))
        return stack.enter_context(plain(**arguments))
    made = provider(**arguments)
    return await made if inspect.isawaitable(made) else made
