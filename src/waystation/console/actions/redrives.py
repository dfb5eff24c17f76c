"""Redrives: failed jobs of a group run again, a few first, and stop when they fail again."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

from waystation.console.actions.failures import failures_of, group_id
from waystation.console.actions.runs import Run, Runs, State
from waystation.console.products.queue import ConsoleQueue

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
                found.append(failure.id)
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
