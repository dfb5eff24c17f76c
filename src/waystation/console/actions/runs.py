"""Runs: what an operator started and the console goes on with, whoever looks."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from waystation.core.errors import NotFound, WaystationError
from waystation.core.http.problems import Problem
from waystation.core.telemetry.logs import get_logger

KEPT = 50
"""Runs of a kind that are remembered."""

_log = get_logger(__name__)


class State(StrEnum):
    """How far a run is."""

    RUNNING = "running"
    DONE = "done"
    RELAPSED = "relapsed"
    """Jobs failed again, and the others were left alone."""
    UNSEEN = "unseen"
    """Nothing says how the jobs of a step have ended, and the others were left alone."""
    STOPPED = "stopped"
    """Somebody stopped it."""
    TIMED_OUT = "timed-out"
    """Jobs of one step did not end in time."""
    BROKEN = "broken"
    """The store did not answer, or what was wanted could not be done."""


class Run(msgspec.Struct, kw_only=True):
    """One run, as far as it is."""

    id: str = msgspec.field(default_factory=lambda: secrets.token_hex(6))
    by: str
    started_at: datetime = msgspec.field(default_factory=lambda: datetime.now(UTC))
    state: State = State.RUNNING
    ended_at: datetime | None = None
    error: str = ""
    """Why it is broken, where that is known."""

    def end(self, state: State, error: str = "") -> None:
        """Note how it ended."""
        self.state, self.ended_at, self.error = state, datetime.now(UTC), error


class Bulk(Run, kw_only=True):
    """An action on all jobs that a search finds."""

    action: str
    q: str
    matched: int
    """What the dry run counted."""
    beyond: bool
    """Whether there may be more than were counted."""
    done: int = 0


R = TypeVar("R", bound=Run)


class Runs(Generic[R]):
    """The runs of one kind in this process; they end with it."""

    def __init__(self) -> None:
        self._known: dict[str, R] = {}
        self.forgotten = 0
        """How many ended and are remembered no more."""
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, run: R, steps: Callable[[R], Awaitable[None]]) -> R:
        """Take the steps in the background; they look at the run's state between two of them."""
        self._forget_old()
        self._known[run.id] = run
        task = asyncio.create_task(_run(run, steps))
        self._tasks[run.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(run.id, None))
        return run

    def every(self) -> list[R]:
        """All that are remembered, the newest first."""
        return list(self._known.values())[::-1]

    def get(self, id: str) -> R:
        """One of them."""
        if id not in self._known:
            raise NotFound("there is no such run, or it is forgotten")
        return self._known[id]

    def stop(self, id: str) -> R:
        """Take no more steps."""
        run = self.get(id)
        if run.state is State.RUNNING:
            run.end(State.STOPPED)
        return run

    async def close(self) -> None:
        """Stop all of them."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _forget_old(self) -> None:
        ended = [id for id, each in self._known.items() if each.state is not State.RUNNING]
        for id in ended[: max(0, len(self._known) - KEPT + 1)]:
            del self._known[id]
            self.forgotten += 1


async def _run(run: R, steps: Callable[[R], Awaitable[None]]) -> None:
    try:
        await steps(run)
    except (WaystationError, Problem) as error:
        run.end(State.BROKEN, str(error))
    except Exception:
        _log.exception("run_broken")
        run.end(State.BROKEN)
    if run.state is State.RUNNING:
        run.end(State.DONE)
