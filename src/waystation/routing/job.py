"""Jobs: what a producer has asked for, and what a handler can do."""

from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Protocol

from waystation.core import codec
from waystation.core.backoff import LONGEST_MS
from waystation.core.durations import possible_instant
from waystation.core.errors import InvalidOption, WrongState
from waystation.core.options import of_kind
from waystation.core.runtime.handlers.calls import Call, Calls
from waystation.routing.limits import Limit
from waystation.routing.options import Retry
from waystation.routing.redis.wire import WireJob, read_job, read_schedule
from waystation.routing.schedules import Schedule
from waystation.routing.target import ANYWHERE, Target, route

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Data = TypeVar("Data", default=Any)
    Result = TypeVar("Result", default=Any)
else:
    from typing import TypeVar

    Data = TypeVar("Data")
    Result = TypeVar("Result")


class JobFields(Generic[Data, Result]):
    """The attributes of a job. `Data` is the type of `data`, `Result` what its handler returns."""

    __slots__ = ("_data", "_read", "id", "raw", "type")

    def __init__(self, id: str, raw: bytes, *, type: str | None = None) -> None:
        self.id = id
        self.raw = raw
        """The job's JSON."""
        # A producer knows the type of a job that it adds, and mostly needs no more of it.
        if type is None:
            self._read: WireJob | None = (wire := read_job(raw))
            self.type = wire.type
        else:
            self._read = None
            self.type = type
        self._data: Any = _UNREAD

    @property
    def _wire(self) -> WireJob:
        if self._read is None:
            self._read = read_job(self.raw)
        return self._read

    @property
    def data(self) -> Data:
        """What the producer has sent along."""
        if self._data is _UNREAD:
            self._data = codec.decode(bytes(self._wire.payload))
        return self._data

    @property
    def metadata(self) -> Any:
        """The producer's notes about the job."""
        return codec.decode(bytes(self._wire.metadata))

    @property
    def retry(self) -> Retry:
        """How often it is tried."""
        return self._wire.retry.read()

    @property
    def target(self) -> Target:
        """The workers that may run it."""
        return self._wire.target or ANYWHERE

    @property
    def limit(self) -> Limit | None:
        """Its limit where its type has none of its own."""
        return self._wire.rate_limit

    @property
    def priority(self) -> float:
        """1 to 10; jobs from 7 on run before all those below 7."""
        return self._wire.priority

    @property
    def depends_on(self) -> tuple[str, ...]:
        """Ids of jobs that must be completed first."""
        return self._wire.depends_on or ()

    @property
    def attempts(self) -> int:
        """Attempts that have failed so far."""
        return min(max(self._wire.attempts, 0), LONGEST_MS)

    @property
    def max_attempts(self) -> int:
        """Attempts in all, the first included."""
        return self._wire.retry.attempts

    @property
    def created_at(self) -> datetime | None:
        """When the producer made it; None when its JSON does not say."""
        return possible_instant(self.created_ms) if self.created_ms else None

    @property
    def created_ms(self) -> float:
        """When the producer made it, in milliseconds since the epoch."""
        return self._wire.created_at

    @property
    def schedule(self) -> Schedule:
        """When it runs."""
        return read_schedule(bytes(self._wire.schedule))


class Job(JobFields[Data, Result]):
    """A job as a queue returns it and an `async def` handler gets it."""

    __slots__ = ()

    async def update_progress(self, percent: float, message: str = "", data: object = None) -> None:
        """Store how far the work is, from 0 to 100; LeaseLost when another worker holds the job."""
        raise WrongState(f"job {self.id} is not held by a worker")

    def view(self, calls: Calls) -> "SyncJob[Data, Result]":
        """Internal: the job as a plain handler gets it."""
        return SyncJob(self.id, self.raw, calls)

    async def perform(self, call: Call) -> Any:
        """Internal: do a step for a plain handler."""
        return await getattr(self, call.step)(*call.args, **call.kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        # Only the job crosses into another process, without its connection.
        return (Job, (self.id, self.raw))

    def __repr__(self) -> str:
        return f"Job({self.id!r}, {self.type!r})"


class ProgressStore(Protocol):
    """Stores how far a job is; internal."""

    async def store_progress(
        self, id: str, token: str, percent: float, message: str, data: object
    ) -> None:
        """Store it; LeaseLost when another worker holds the job."""
        ...


class HeldJob(Job):
    """A job that a worker has claimed; internal, handlers know it as a `Job`."""

    __slots__ = ("_store", "has_progress", "token")

    def __init__(self, id: str, raw: bytes, store: ProgressStore, token: str) -> None:
        super().__init__(id, raw)
        self.has_progress = False
        self.token = token
        self._store = store

    async def update_progress(self, percent: float, message: str = "", data: object = None) -> None:
        """Store how far the work is; LeaseLost when another worker holds the job."""
        if not isinstance(percent, int | float) or not 0 <= percent <= 100:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidOption(f"percent must be 0 to 100, got {percent!r}")
        of_kind("message", message, str)
        self.has_progress = True
        await self._store.store_progress(self.id, self.token, percent, message, data)


class SyncJob(JobFields[Data, Result]):
    """A job as a plain `def` handler gets it, in a thread or in a process.

    A call returns when the store has answered. Once the job was cancelled, its lease was lost, its
    timeout has passed or the worker has closed, `cancelled` is true and every call raises
    `Cancelled`; a handler in a process is ended at once.
    """

    __slots__ = ("_calls",)

    def __init__(self, id: str, raw: bytes, calls: Calls) -> None:
        """Internal: workers make it."""
        super().__init__(id, raw)
        self._calls = calls

    @property
    def cancelled(self) -> bool:
        """Whether the result is no longer wanted, so that the handler should clean up and end."""
        return self._calls.cancelled

    def update_progress(self, percent: float, message: str = "", data: object = None) -> None:
        """Store how far the work is, from 0 to 100; LeaseLost when another worker holds the job."""
        return self._calls.make(Call("update_progress", (percent, message, data)), lambda _: None)

    def __reduce__(self) -> tuple[Any, ...]:
        return (SyncJob, (self.id, self.raw, self._calls))

    def __repr__(self) -> str:
        return f"SyncJob({self.id!r}, {self.type!r})"


_UNREAD = object()


def route_of(job: Job, target: Target | None = None) -> str:
    """The job's lane and signature, for another target when there is one."""
    return route(job.type, target or job.target, round(job.priority), job.limit)
