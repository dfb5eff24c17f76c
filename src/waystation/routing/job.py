"""One job: what its JSON says, and what its handler can do with it."""

from typing import Any, Protocol

import msgspec

from waystation.core import codec
from waystation.core.backoff import LONGEST_MS
from waystation.core.errors import InvalidOption, Malformed, WrongState
from waystation.core.options import of_kind
from waystation.core.runtime.handlers.calls import Call, Calls
from waystation.routing.limits import Limit
from waystation.routing.options import DEFAULT_PRIORITY, JobOptions, Retry
from waystation.routing.schedules import Schedule
from waystation.routing.target import ANYWHERE, Target, route


class WireJob(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A job as BridgeMQ's JSON has it; what a foreign producer left out has a default."""

    job_id: str
    type: str
    payload: msgspec.Raw = msgspec.Raw(b"{}")
    schedule: msgspec.Raw = msgspec.Raw(b"{}")
    retry: Retry = Retry()
    priority: float = DEFAULT_PRIORITY
    depends_on: tuple[str, ...] | None = ()
    target: Target | None = None
    rate_limit: Limit | None = None
    metadata: msgspec.Raw = msgspec.Raw(b"{}")
    created_at: float = 0
    attempts: int = 0
    """Attempts that have failed so far."""


class Told(Protocol):
    """Whoever takes note of how far a job is."""

    async def progress(self, job: "Job", percent: float, message: str, data: object) -> None:
        """Keep it, or raise when the job is held by somebody else."""
        ...


class JobFields:
    """What a job's JSON says."""

    __slots__ = ("_payload", "_wire", "id", "raw", "token", "type")

    def __init__(self, id: str, raw: bytes, *, token: str = "") -> None:
        self.id = id
        self.raw = raw
        self.token = token
        self._wire = _read(raw)
        self.type = self._wire.type
        self._payload: Any = _UNREAD

    @property
    def payload(self) -> Any:
        """What the producer sent along."""
        if self._payload is _UNREAD:
            self._payload = codec.decode(bytes(self._wire.payload))
        return self._payload

    @property
    def metadata(self) -> Any:
        """What the producer noted about the job."""
        return codec.decode(bytes(self._wire.metadata))

    @property
    def retry(self) -> Retry:
        """How often it is tried."""
        return self._wire.retry

    @property
    def target(self) -> Target:
        """Where it may run."""
        return self._wire.target or ANYWHERE

    @property
    def limit(self) -> Limit | None:
        """What it is limited to where its type has no limit of its own."""
        return self._wire.rate_limit

    @property
    def priority(self) -> float:
        """1 to 10; from 7 on it goes before all those below 7."""
        return self._wire.priority

    @property
    def attempts(self) -> int:
        """Attempts that have failed so far."""
        return min(max(self._wire.attempts, 0), LONGEST_MS)

    @property
    def created_ms(self) -> float:
        """When the producer made it."""
        return self._wire.created_at

    @property
    def schedule(self) -> Schedule:
        """When it runs."""
        return codec.decode(bytes(self._wire.schedule), Schedule)


class Job(JobFields):
    """A job as an `async def` handler gets it."""

    __slots__ = ("_told", "progressed")

    def __init__(self, id: str, raw: bytes, *, told: Told | None = None, token: str = "") -> None:
        super().__init__(id, raw, token=token)
        self.progressed = False
        self._told = told

    async def progress(self, percent: float, message: str = "", data: object = None) -> None:
        """Tell how far the work is, from 0 to 100; raises `LeaseLost` when it is not ours."""
        if not 0 <= percent <= 100:
            raise InvalidOption(f"percent must be 0 to 100, got {percent}")
        if self._told is None:
            raise WrongState(f"job {self.id} is not held by a worker")
        self.progressed = True
        await self._told.progress(self, percent, message, data)

    def view(self, calls: Calls) -> "SyncJob":
        """The job as a plain handler gets it."""
        return SyncJob(self.id, self.raw, calls)

    async def perform(self, call: Call) -> Any:
        """Do a step for a plain handler."""
        return await getattr(self, call.step)(*call.args, **call.kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        # What crosses into another process is the job alone, without the way to the store.
        return (Job, (self.id, self.raw))

    def __repr__(self) -> str:
        return f"Job({self.id!r}, {self.type!r})"


class SyncJob(JobFields):
    """A job as a plain `def` handler gets it, in a thread or in a process.

    A call returns when the store has answered. Once the job was cancelled, its lease was lost, its
    time is up or the worker has closed, `cancelled` is true and every call raises `Cancelled`;
    a handler in a process is ended there and then.
    """

    __slots__ = ("_calls",)

    def __init__(self, id: str, raw: bytes, calls: Calls) -> None:
        super().__init__(id, raw)
        self._calls = calls

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the handler any more, so that it should clean up and end."""
        return self._calls.cancelled

    def progress(self, percent: float, message: str = "", data: object = None) -> None:
        """Tell how far the work is, from 0 to 100; raises `LeaseLost` when it is not ours."""
        return self._calls.make(Call("progress", (percent, message, data)), lambda _: None)

    def __reduce__(self) -> tuple[Any, ...]:
        return (SyncJob, (self.id, self.raw, self._calls))

    def __repr__(self) -> str:
        return f"SyncJob({self.id!r}, {self.type!r})"


_UNREAD = object()


def _read(raw: bytes) -> WireJob:
    try:
        return codec.decode(raw, WireJob)
    except InvalidOption as error:
        raise Malformed(f"the job cannot be run: {error}") from None


def written(id: str, type: str, payload: object, options: JobOptions, created_ms: int) -> bytes:
    """The JSON of a new job."""
    return codec.encode(
        {
            "jobId": id,
            "type": type,
            "payload": {} if payload is None else payload,
            "schedule": options.schedule,
            "retry": options.retry,
            "priority": options.priority,
            "dependsOn": options.depends_on,
            "target": options.target,
            "metadata": options.metadata,
            "createdAt": created_ms,
            "attempts": 0,
        }
        | ({"rateLimit": options.limit} if options.limit else {})
    )


def rewritten(raw: bytes, **changes: object) -> bytes:
    """The same JSON with some members replaced; all others stay byte for byte."""
    members = codec.decode(raw, dict[str, msgspec.Raw])
    return codec.encode(members | changes)


def instance_of(raw: bytes, id: str, created_ms: int) -> bytes:
    """The JSON of one instance of a schedule."""
    return rewritten(raw, jobId=id, createdAt=created_ms)


def route_of(job: Job, target: Target | None = None) -> str:
    """The job's lane and signature, for another target when there is one."""
    return route(job.type, target or job.target, round(job.priority), job.limit)


def checked_type(type: str) -> str:
    """A job's type, or why it cannot be one."""
    of_kind("a job's type", type, str)
    if not type or not type.isprintable() or " " in type:
        raise InvalidOption(f"a job's type must be text without spaces, got {type!r}")
    return type


def text_of(id: bytes) -> str:
    """An id as text; whoever pushes ids with plain commands may push anything."""
    try:
        return id.decode()
    except UnicodeDecodeError:
        raise Malformed(f"a job's id must be UTF-8, got {id!r}") from None
