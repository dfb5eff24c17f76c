"""The interface of a queue to the console, the same for every product."""

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol

import msgspec

from waystation.console.actions.kinds import Act
from waystation.console.products.views import (
    Failure,
    JobDetail,
    JobView,
    Levels,
    SchedulerView,
    WorkerView,
)
from waystation.console.why import Answer
from waystation.core.errors import InvalidOption, StoreBusy, StoreUnreachable
from waystation.core.telemetry.logs import get_logger

_log = get_logger(__name__)
_told = set[tuple[str, str]]()
"""Queues of which the log says already that they cannot be read."""

SHORT = 160
"""Characters of data and errors in a list."""


class Plan(msgspec.Struct, frozen=True):
    """An action that may be taken: how many things it concerns, and the step itself."""

    affected: int
    take: Callable[[], Awaitable[Any]]
    """Returns how many there were in the end, where that can differ."""
    note: Mapping[str, Any] = {}
    """What else goes into the audit log."""


class ConsoleQueue(Protocol):
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

    async def levels(self) -> Levels:
        """Counts, pause and the age of the oldest job."""
        ...

    async def prometheus_text(self) -> str:
        """Its metrics in Prometheus' text format."""
        ...

    async def about(self) -> dict[str, Any]:
        """Limits and settings that are stored with the queue."""
        ...

    async def jobs(
        self, state: str, *, offset: int, limit: int, newest_first: bool, most: int = SHORT
    ) -> list[JobView]:
        """A page of the jobs in a state, with so many characters of their data at most."""
        ...

    async def job(self, id: str) -> JobDetail | None:
        """Everything about one job; None when there is none."""
        ...

    async def workers(self) -> list[WorkerView]:
        """The workers of the queue."""
        ...

    async def schedulers(self) -> list[SchedulerView]:
        """What adds jobs to it again and again."""
        ...

    async def failures(self, *, offset: int, limit: int) -> list[Failure]:
        """Jobs that failed for good, the newest first."""
        ...

    async def settled(self, ids: Sequence[str]) -> Mapping[str, str]:
        """Of these jobs, those that have ended: `completed`, `failed` or `gone`."""
        ...

    async def retry(self, ids: Sequence[str]) -> int:
        """Run failed jobs again; returns how many."""
        ...

    async def change(
        self, action: str, jobs: Sequence[JobView], *, reason: str = "", by: str = ""
    ) -> int:
        """Retry, promote, cancel or remove jobs that were found in these states; returns how many.

        What has left its state meanwhile is left alone.
        """
        ...

    async def why(self, id: str | None = None) -> Answer | None:
        """Why a job, or the queue itself, is where it is; None when nothing is known of it."""
        ...

    async def memory(self) -> tuple[int, int]:
        """About how many bytes the queue takes, and how many jobs it has."""
        ...

    async def plan(self, action: str, asked: Act, *, by: str = "") -> Plan:
        """What an action would concern, and the step that takes it."""
        ...


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


def actions_for(queue: ConsoleQueue, state: str) -> list[str]:
    """What can be done to a job in this state."""
    return [action for action, states in queue.states_of.items() if state in states]


def require_no_until(asked: Act) -> None:
    """Refuse an instant where dead letters are taken whenever they came."""
    if asked.until is not None:
        raise InvalidOption("until is for bullmq; leave it out to retry all dead letters")


def short(text: str, most: int = SHORT) -> str:
    """The beginning of a text, in one line."""
    line = " ".join(text[: most * 4].split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
