"""Redrives: failed jobs of a group run again, a few first, and stop when they fail again."""

import asyncio
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from waystation.console.actions.failures import failures_of, group_id
from waystation.console.products.queue import ConsoleQueue
from waystation.core.errors import NotFound, WaystationError
from waystation.core.telemetry.logs import get_logger

CANARY = 5
MOST = 100_000
"""Failures that are looked through for the jobs of a group."""
LARGEST = 500
"""Jobs that are released at once, at most."""
EVERY_S = 0.5
PATIENCE_S = 900.0
"""How long the jobs of one step may take, the wait for a worker included."""
KEPT = 50
"""Redrives that are remembered."""

_log = get_logger(__name__)


class Mode(StrEnum):
    """How many jobs are run again."""

    ONE = "one"
    CANARY = "canary"
    ALL = "all"


class State(StrEnum):
    """How far a redrive is."""

    RUNNING = "running"
    DONE = "done"
    RELAPSED = "relapsed"
    """Jobs failed again, and the others were left alone."""
    STOPPED = "stopped"
    """Somebody stopped it."""
    TIMED_OUT = "timed-out"
    """Jobs of one step did not end in time."""
    BROKEN = "broken"
    """The store did not answer."""


class Redrive(msgspec.Struct, kw_only=True):
    """One redrive, as far as it is."""

    id: str
    product: str
    queue: str
    group: str
    mode: Mode
    by: str
    started_at: datetime
    state: State = State.RUNNING
    total: int
    """Jobs that are to run again."""
    released: int = 0
    completed: int = 0
    failed: int = 0
    ended_at: datetime | None = None


class Redrives:
    """The redrives of this process."""

    def __init__(self) -> None:
        self._known: dict[str, Redrive] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def ids_of(self, queue: ConsoleQueue, group: str, mode: Mode) -> list[str]:
        """The jobs that a redrive of this group would run again, the newest first."""
        most = {Mode.ONE: 1, Mode.CANARY: CANARY, Mode.ALL: MOST}[mode]
        found: list[str] = []
        async for failure in failures_of(queue, most=MOST):
            if group_id(failure) == group:
                found.append(failure.id)
                if len(found) >= most:
                    break
        return found

    def start(
        self, queue: ConsoleQueue, group: str, mode: Mode, ids: Sequence[str], *, by: str
    ) -> Redrive:
        """Run these jobs again, in steps."""
        redrive = Redrive(
            id=secrets.token_hex(6),
            product=queue.product,
            queue=queue.name,
            group=group,
            mode=mode,
            by=by,
            started_at=datetime.now(UTC),
            total=len(ids),
        )
        self._forget_old()
        self._known[redrive.id] = redrive
        task = asyncio.create_task(self._run(redrive, queue, list(ids)))
        self._tasks[redrive.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(redrive.id, None))
        return redrive

    def every(self) -> list[Redrive]:
        """All that are remembered, the newest first."""
        return list(self._known.values())[::-1]

    def get(self, id: str) -> Redrive:
        """One of them."""
        if id not in self._known:
            raise NotFound("there is no such redrive, or it is forgotten")
        return self._known[id]

    def stop(self, id: str) -> Redrive:
        """Release no more jobs."""
        redrive = self.get(id)
        if redrive.state is State.RUNNING:
            _end(redrive, State.STOPPED)
        return redrive

    async def close(self) -> None:
        """Stop all of them."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, redrive: Redrive, queue: ConsoleQueue, ids: list[str]) -> None:
        try:
            await self._run_in_steps(redrive, queue, ids)
        except WaystationError:
            _end(redrive, State.BROKEN)
        except Exception:
            _log.exception("redrive_broken")
            _end(redrive, State.BROKEN)

    async def _run_in_steps(self, redrive: Redrive, queue: ConsoleQueue, ids: list[str]) -> None:
        size = CANARY
        while ids and redrive.state is State.RUNNING:
            step, ids = ids[:size], ids[size:]
            await queue.retry(step)
            redrive.released += len(step)
            await self._watch(redrive, queue, step)
            # Trust grows with what went well.
            size = min(LARGEST, size * 2)
        if redrive.state is State.RUNNING:
            _end(redrive, State.DONE)

    async def _watch(self, redrive: Redrive, queue: ConsoleQueue, step: Sequence[str]) -> None:
        """Wait until the jobs of a step have ended; one that failed again ends the redrive."""
        open_ids = set(step)
        clock = asyncio.get_running_loop().time
        until = clock() + PATIENCE_S
        while open_ids and redrive.state is State.RUNNING:
            ended = await queue.settled(sorted(open_ids))
            open_ids -= ended.keys()
            redrive.completed += sum(state == "completed" for state in ended.values())
            redrive.failed += sum(state == "failed" for state in ended.values())
            if redrive.failed:
                _end(redrive, State.RELAPSED)
            elif open_ids and clock() > until:
                _end(redrive, State.TIMED_OUT)
            elif open_ids:
                await asyncio.sleep(EVERY_S)

    def _forget_old(self) -> None:
        ended = [id for id, each in self._known.items() if each.state is not State.RUNNING]
        for id in ended[: max(0, len(self._known) - KEPT + 1)]:
            del self._known[id]


def _end(redrive: Redrive, state: State) -> None:
    redrive.state, redrive.ended_at = state, datetime.now(UTC)
