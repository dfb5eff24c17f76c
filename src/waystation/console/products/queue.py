"""The interface of a queue to the console, the same for every product."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol

import msgspec

from waystation.console.actions.kinds import Act
from waystation.console.products.views import (
    SHORT,
    Failure,
    JobDetail,
    JobView,
    Levels,
    Moment,
    SchedulerView,
    Tenants,
    WorkerView,
    short,
)
from waystation.console.why import Answer
from waystation.core.durations import instant, possible_instant
from waystation.core.errors import InvalidOption, StoreBusy, StoreUnreachable
from waystation.core.store.commands import newest_first
from waystation.core.store.connection import Store
from waystation.core.telemetry.logs import get_logger

_log = get_logger(__name__)
_told = set[tuple[str, str]]()
"""Queues of which the log says already that they cannot be read."""


class Plan(msgspec.Struct, frozen=True):
    """An action that may be taken: how many things it concerns, and the step itself."""

    affected: int
    take: Callable[[], Awaitable[Any]]
    """Returns how many there were in the end, where that can differ."""
    note: Mapping[str, Any] = {}
    """What else goes into the audit log."""


class _ProductQueue(Protocol):
    """What the queues of all products have."""

    async def state(self, id: str, /) -> str | None: ...
    async def prometheus_text(self) -> str: ...
    async def close(self) -> None: ...


class ConsoleQueue(ABC):
    """A queue of one of the products.

    An action that the product does not have is missing in `actions`, and is not offered.
    """

    product: ClassVar[str]
    states: ClassVar[tuple[str, ...]]
    waiting: ClassVar[tuple[str, ...]]
    """The states whose jobs are ready to run."""
    failed: ClassVar[str]
    """The state of jobs that failed for good."""
    actions: ClassVar[tuple[str, ...]]
    states_of: ClassVar[Mapping[str, tuple[str, ...]]]
    """The states of the jobs that an action on jobs may concern."""
    name: str
    stream: str
    """The key of its events."""

    def __init__(self, store: Store, queue: _ProductQueue, *, name: str, stream: str) -> None:
        self.name = name
        self.stream = stream
        self._store = store
        self._asked = queue

    @abstractmethod
    async def levels(self) -> Levels:
        """Counts, pause and the age of the oldest job."""

    async def prometheus_text(self) -> str:
        """Its metrics in Prometheus' text format."""
        return await self._asked.prometheus_text()

    @abstractmethod
    async def about(self) -> dict[str, Any]:
        """Limits and settings that are stored with the queue."""

    @abstractmethod
    async def jobs(
        self, state: str, *, offset: int, limit: int, newest_first: bool, most: int = SHORT
    ) -> list[JobView]:
        """A page of the jobs in a state, with so many characters of their data at most."""

    @abstractmethod
    async def job(self, id: str) -> JobDetail | None:
        """Everything about one job; None when there is none."""

    @abstractmethod
    async def workers(self) -> list[WorkerView]:
        """The workers of the queue."""

    async def tenants(self) -> Tenants:
        """Who shares the queue, by the groups of its jobs."""
        return Tenants()

    async def schedulers(self) -> list[SchedulerView]:
        """What adds jobs to it again and again."""
        return []

    @abstractmethod
    async def failures(self, *, offset: int, limit: int) -> list[Failure]:
        """Jobs that failed for good, the newest first."""

    async def settled(self, ids: Sequence[str]) -> Mapping[str, str]:
        """Of these jobs, those that have ended: `completed`, `failed` or `gone`."""
        states = {id: await self._asked.state(id) for id in ids}
        return await outcomes(self._store, self.stream, states)

    @abstractmethod
    async def retry(self, ids: Sequence[str]) -> int:
        """Run failed jobs again; returns how many."""

    @abstractmethod
    async def change(
        self, action: str, jobs: Sequence[JobView], *, reason: str = "", by: str = ""
    ) -> int:
        """Retry, promote, cancel or remove jobs that were found in these states; returns how many.

        What has left its state meanwhile is left alone.
        """

    @abstractmethod
    async def why(self, id: str | None = None) -> Answer | None:
        """Why a job, or the queue itself, is where it is; None when nothing is known of it."""

    @abstractmethod
    async def memory(self) -> tuple[int, int]:
        """About how many bytes the queue takes, and how many jobs it has."""

    @abstractmethod
    async def plan(self, action: str, asked: Act, *, by: str = "") -> Plan:
        """What an action would concern, and the step that takes it."""

    def actions_in(self, state: str) -> list[str]:
        """What can be done to a job in this state."""
        return [action for action, states in self.states_of.items() if state in states]

    async def fitting(self, action: str, ids: Sequence[str]) -> list[JobView]:
        """Of these jobs, those that are in a state in which this can be done to them."""
        states = {id: await self._asked.state(id) or "" for id in ids}
        fit = self.states_of[action]
        return [JobView(id=id, name="", state=each) for id, each in states.items() if each in fit]

    async def close(self) -> None:
        """Let go of what the queue listens with."""
        await self._asked.close()


@contextmanager
def alone(product: str, name: str) -> Generator[None]:
    """Let what is wrong with one queue of many, whatever it is, concern no other."""
    try:
        yield
    except (StoreUnreachable, StoreBusy):
        raise
    except Exception as error:
        if (product, name) not in _told:
            _told.add((product, name))
            _log.error("queue_unreadable", error, product=product, queue=name)


def require_no_until(asked: Act) -> None:
    """Refuse an instant where dead letters are taken whenever they came."""
    if asked.until is not None:
        raise InvalidOption("until is for bullmq; leave it out to retry all dead letters")


LOOKED_AT = 3000
"""Events that are looked through for one job, from the newest back."""
_SUBJECTS = (b"jobId", b"subject")
_ENDS = {
    "completed": "completed",
    "failed": "failed",
    "retries-exhausted": "failed",
    "dead": "failed",
    "removed": "gone",
    "cancelled": "gone",
}
_SAYS_NOTHING = ("kept", "progress", "cleaned")
"""Events that may come after the one that tells how a job ended."""
_NOTES = (b"failedReason", b"reason", b"error", b"worker")


async def moments_of(store: Store, stream: str, id: str) -> list[Moment]:
    """What happened to a job, the oldest first; empty when its events are gone."""
    found: list[Moment] = []
    wanted, seen = id.encode(), 0
    async for at, fields in newest_first(store.hot, stream):
        seen += 1
        if any(fields.get(name) == wanted for name in _SUBJECTS):
            found.append(_moment(at, fields))
            if fields.get(b"event") == b"added":
                break
        if seen >= LOOKED_AT:
            break
    return found[::-1]


async def outcomes(
    store: Store, stream: str, states: Mapping[str, str | None]
) -> Mapping[str, str]:
    """Of jobs in these states, those that have ended: `completed`, `failed` or `gone`.

    One that is not stored any more has ended as its last event says; where none does, nobody
    knows whether it was completed, failed and was not kept, or was removed.
    """
    ended = {id: _ENDS[state] for id, state in states.items() if state in _ENDS}
    missing = {id.encode(): id for id, state in states.items() if state in (None, "unknown")}
    if missing:
        async for _, fields in newest_first(store.hot, stream):
            named = next((fields[name] for name in _SUBJECTS if name in fields), b"")
            event = fields.get(b"event", b"").decode("utf-8", "replace")
            if named in missing and event not in _SAYS_NOTHING:
                ended[missing.pop(named)] = _ENDS.get(event, "gone")
                if not missing:
                    break
    return ended | dict.fromkeys(missing.values(), "gone")


def _moment(id: bytes, fields: dict[bytes, bytes]) -> Moment:
    note = next((fields[name] for name in _NOTES if fields.get(name)), b"")
    return Moment(
        at=possible_instant(int(id.partition(b"-")[0])) or instant(0),
        what=fields.get(b"event", b"?").decode("utf-8", "replace"),
        note=short(note.decode("utf-8", "replace"), 300),
    )
