"""Runs: what an operator started and the console goes on with; redrives are such runs."""

import asyncio
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from waystation.console.actions.failures import failures_of, group_id
from waystation.console.products.queue import ConsoleQueue
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


CANARY = 5
MOST = 100_000
"""Failures that are looked through for the jobs of a group."""
LARGEST = 500
"""Jobs that are released at once, at most."""
EVERY_S = 0.5
PATIENCE_S = 900.0
"""How long the jobs of one step may take, the wait for a worker included."""


class Mode(StrEnum):
    """How many jobs are run again."""

    ONE = "one"
    CANARY = "canary"
    ALL = "all"


class Redrive(Run, kw_only=True):
    """One redrive, as far as it is."""

    product: str
    queue: str
    group: str
    mode: Mode
    total: int
    """Jobs that are to run again."""
    released: int = 0
    completed: int = 0
    failed: int = 0
    gone: int = 0
    """Removed by somebody, or not stored any more without an event that says how they ended."""


class Redrives(Runs[Redrive]):
    """The redrives of this process."""

    async def ids_of(self, queue: ConsoleQueue, group: str, mode: Mode) -> list[str]:
        """The jobs that a redrive of this group would run again, the newest first."""
        most = {Mode.ONE: 1, Mode.CANARY: CANARY, Mode.ALL: MOST}[mode]
        found: list[str] = []
        async for failure in failures_of(queue, most=MOST):
            if group_id(failure) == group:
                found.append(failure.job.id)
                if len(found) >= most:
                    break
        return found

    def start(
        self, queue: ConsoleQueue, group: str, mode: Mode, ids: Sequence[str], *, by: str
    ) -> Redrive:
        """Run these jobs again, in steps."""
        redrive = Redrive(
            product=queue.product, queue=queue.name, group=group, mode=mode, by=by, total=len(ids)
        )
        return self.begin(redrive, lambda _: self._run_in_steps(redrive, queue, list(ids)))

    async def _run_in_steps(self, redrive: Redrive, queue: ConsoleQueue, ids: list[str]) -> None:
        size = CANARY
        while ids and redrive.state is State.RUNNING:
            step, ids = ids[:size], ids[size:]
            # Fewer where somebody else has retried or removed some meanwhile.
            redrive.released += await queue.retry(step)
            seen = redrive.completed
            await self._watch(redrive, queue, step)
            if ids and redrive.state is State.RUNNING and redrive.completed == seen:
                redrive.end(State.UNSEEN)
            # Trust grows with what went well.
            size = min(LARGEST, size * 2)

    async def _watch(self, redrive: Redrive, queue: ConsoleQueue, step: Sequence[str]) -> None:
        """Wait until the jobs of a step have ended; one that failed again ends the redrive."""
        open_ids = set(step)
        clock = asyncio.get_running_loop().time
        until = clock() + PATIENCE_S
        while open_ids and redrive.state is State.RUNNING:
            ended = await queue.settled(sorted(open_ids))
            open_ids -= ended.keys()
            counts = Counter(ended.values())
            redrive.completed += counts["completed"]
            redrive.failed += counts["failed"]
            redrive.gone += counts["gone"]
            if redrive.failed:
                redrive.end(State.RELAPSED)
            elif open_ids and clock() > until:
                redrive.end(State.TIMED_OUT)
            elif open_ids:
                await asyncio.sleep(EVERY_S)
