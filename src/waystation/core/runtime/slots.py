"""The places in which work runs: as many as the concurrency allows, each one task for its lifetime.

A task per job costs more than most of what a worker does for a job, so a slot takes the next
claim as soon as the last one is finished. A handler that never has to wait is run without
leaving the slot; the first one that does wait lets the other slots begin.
"""

import asyncio
import contextvars
import time
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, Generic, TypeVar, cast

from waystation.core.errors import Cancelled, TimedOut, WorkError
from waystation.core.outcome import Done, Failed, Outcome, Returned
from waystation.core.runtime.batches import Batches, Batching
from waystation.core.runtime.claim import Claim
from waystation.core.runtime.handlers import Handler
from waystation.core.runtime.handlers.calls import Attempt, leaving
from waystation.core.runtime.handlers.time_limit import TimeLimit
from waystation.core.runtime.tasks import go_on, is_from_a_signal
from waystation.core.telemetry.logs import get_logger

W = TypeVar("W")
_log = get_logger(__name__)

_TURN_S = 0.002
"""A slot that has run this long without waiting gives the loop a turn."""

_CLOSE_S = 5.0
"""How long a cancelled handler may take to clean up."""


_MOST_LEFT_BEHIND = 10
"""Handlers that were given up and still run in their threads, before a worker claims no more."""

_LEFT_BEHIND = (
    "a function in a thread cannot be stopped; it should ask is_cancelled, or limit what it "
    "waits for, or run with process=True"
)

_RAISED_GENERATOR_EXIT = "the handler raised GeneratorExit"


class Slots(Generic[W]):
    """Runs claims through a handler and reports each as it ends."""

    def __init__(
        self,
        handler: Handler[W],
        *,
        concurrency: int,
        timeout_s: float | None,
        finished: Callable[
            [Claim[W], Outcome | None, float, bool], Coroutine[Any, Any, None] | None
        ],
        batching: Batching[W] | None = None,
    ) -> None:
        """`finished` is told of what has ended, with its outcome and the seconds that it took.

        Last, whether a slot that has nothing to do now says so, as have all the others: that slot
        awaits what it gets.
        """
        self._handler = handler
        self._concurrency = concurrency
        self._timeout_s = timeout_s
        self._finished = finished
        self._singles: deque[Claim[W]] = deque()
        self._batches = Batches[W](handler.batch, batching or Batching()) if handler.batch else None
        # What waits for a slot, in whichever of the two.
        self._ready = self._singles if self._batches is None else self._batches
        self._alarm: asyncio.TimerHandle | None = None
        self._idle: list[asyncio.Future[None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        # Keyed by the claim itself: after a lost lease the same id may run here a second time.
        self._running: dict[Claim[W], tuple[asyncio.Task[None], Sequence[Claim[W]]]] = {}
        self._verdicts: dict[Claim[W], Outcome | None] = {}
        self._left_behind: list[Attempt] = []
        self._surplus = 0
        self._closing = False

    def run(self, claims: Sequence[Claim[W]], *, wake: int = 1) -> None:
        """Start these as soon as there is a slot for them; 0 wakes none, where a slot asks."""
        self._ready.extend(claims)
        self._wake(wake)

    def stop(self, claim: Claim[W], outcome: Outcome | None) -> bool:
        """End one piece of work with this outcome; None means that nobody wants to know.

        False when it is not here, or nobody wanted to know before.
        """
        if claim in self._ready:
            self._ready.remove(claim)
            self._finished(claim, outcome, 0.0, False)
            return True
        first = claim not in self._verdicts
        if claim not in self._running or not (first or self._verdicts[claim]):
            return False
        self._verdicts[claim] = outcome
        if first:
            # Not at once: a handler may be asking for its own end, and must get to its next wait.
            asyncio.get_running_loop().call_soon(self._interrupt, claim)
        return True

    def _interrupt(self, claim: Claim[W]) -> None:
        if claim not in self._running:
            return
        task, together = self._running[claim]
        # A batch goes on for as long as somebody wants to know of one of its jobs.
        if not task.cancelling() and self._verdicts.keys() >= set(together):
            task.cancel()

    def give_back_ready(self) -> None:
        """Hand back what has not begun, the newest first, so that the oldest is next in line."""
        ready = list(self._ready)
        self._ready.clear()
        for claim in reversed(ready):
            self._finished(claim, Returned(), 0.0, False)

    def resize(self, concurrency: int) -> None:
        """Have so many slots from now on; those that are too many end when they are free."""
        self._concurrency = concurrency
        self._surplus = len(self._tasks) - concurrency
        self._wake(max(0, self._surplus) or len(self._ready))

    @property
    def running(self) -> list[Claim[W]]:
        """The work that has begun."""
        return list(self._running)

    @property
    def is_stuck(self) -> bool:
        """Whether so much that was given up still runs in threads that nothing more should begin.

        Each takes a thread and what it has open, and where all of them hang, so would the next.
        """
        self._left_behind = [each for each in self._left_behind if each.is_running]
        return len(self._left_behind) >= max(_MOST_LEFT_BEHIND, self._concurrency)

    def _leave_behind(self, attempt: Attempt) -> None:
        self._left_behind.append(attempt)
        if not self._closing:
            _log.error("handler_left_behind", count=len(self._left_behind), hint=_LEFT_BEHIND)

    async def close(self) -> None:
        """End every slot at once; what runs in them is not reported."""
        self._closing = True
        self._set_alarm(None)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            # A handler that ignores its cancellation must not keep the process from ending.
            await asyncio.wait(self._tasks, timeout=_CLOSE_S)
        await self._handler.close()

    def _wake(self, many: int) -> None:
        while many and self._idle:
            waiting = self._idle.pop()
            if not waiting.done():
                waiting.set_result(None)
                many -= 1
        while many and len(self._tasks) < self._concurrency:
            task = asyncio.create_task(self._slot(), name=f"slot-{len(self._tasks)}")
            self._tasks.add(task)
            task.add_done_callback(self._slot_ended)
            many -= 1

    def _slot_ended(self, task: asyncio.Task[None]) -> None:
        """Fail what ran in a slot that has ended, and let others take what waits for one."""
        self._tasks.discard(task)
        self._surplus = len(self._tasks) - self._concurrency
        error = None if task.cancelled() else task.exception()
        if self._closing or isinstance(error, KeyboardInterrupt):
            return
        left = [claim for claim, (runner, _) in self._running.items() if runner is task]
        if error or left:
            _log.error("slot_ended", error, count=len(left))
        for claim in left:
            del self._running[claim]
            lost = Failed(WorkError("the slot that ran the handler has ended"))
            self._finished(claim, self._verdicts.pop(claim, lost), 0.0, False)
        self._wake(len(self._ready))

    def _suspended(self) -> None:
        # Of batches nobody knows how many may begin: each slot that begins one wakes the next.
        many = len(self._ready)
        self._wake(many if self._batches is None else min(many, 1))

    async def _slot(self) -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None  # noqa: S101
        leaving.set(self._leave_behind)
        turn_began = time.perf_counter()
        while not self._closing:
            if self._surplus > 0:
                # Counted out at once, so that no more slots than are too many take their leave.
                self._surplus -= 1
                self._tasks.discard(task)
                return
            if self._singles:
                await self._attempt(task, self._singles.popleft())
            elif self._batches and (claims := self._batches.take(may_grow=self._may_grow)):
                await self._attempt_together(task, claims)
            else:
                self._set_alarm(self._batches)
                waiting = loop.create_future()
                self._idle.append(waiting)
                await waiting
                turn_began = time.perf_counter()
                continue
            if time.perf_counter() - turn_began > _TURN_S:
                await asyncio.sleep(0)
                turn_began = time.perf_counter()

    @property
    def _may_grow(self) -> bool:
        """Whether there is room for more; what nothing can join would wait in vain."""
        held = len(self._ready) + len(self._running)
        return held < self._concurrency * self._handler.batch

    def _set_alarm(self, batches: Batches[W] | None) -> None:
        """Wake a slot when the next batch has waited for long enough."""
        if self._alarm:
            self._alarm.cancel()
            self._alarm = None
        if batches:
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_later(batches.next_in_s(), self._wake, 1)

    async def _attempt(self, task: asyncio.Task[None], claim: Claim[W]) -> None:
        began = time.perf_counter()
        self._running[claim] = task, (claim,)
        outcome: Outcome | None
        try:
            outcome = Done(await self._run(claim.work))
        except BaseException as error:
            outcome = Failed(self._blamed(error))
        took = time.perf_counter() - began
        if self._verdicts and claim in self._verdicts:
            outcome = self._judged(claim, outcome, task)
        del self._running[claim]
        alone = not (self._ready or self._running or task.cancelling())
        if (call := self._finished(claim, outcome, took, alone)) is not None:
            await call
        if task.cancelling():
            await go_on(task)

    async def _attempt_together(self, task: asyncio.Task[None], claims: list[Claim[W]]) -> None:
        began = time.perf_counter()
        self._running.update((claim, (task, claims)) for claim in claims)
        outcomes: Sequence[Outcome | None]
        try:
            outcomes = _one_each(await self._run([claim.work for claim in claims]), len(claims))
        except BaseException as error:
            outcomes = [Failed(self._blamed(error))] * len(claims)
        took = time.perf_counter() - began
        judged = [
            self._judged(claim, outcome, task)
            for claim, outcome in zip(claims, outcomes, strict=True)
        ]
        for claim, outcome in zip(claims, judged, strict=True):
            del self._running[claim]
            self._finished(claim, outcome, took, False)
        if task.cancelling():
            await go_on(task)

    def _judged(
        self, claim: Claim[W], outcome: Outcome | None, task: asyncio.Task[None]
    ) -> Outcome | None:
        """The verdict on work that was stopped, else what came of it by itself."""
        verdict = self._verdicts.pop(claim, outcome)
        # What was done before it could be interrupted would be done twice if it were handed back.
        done = isinstance(outcome, Done) and not task.cancelling()
        return outcome if done and isinstance(verdict, Returned) else verdict

    def _blamed(self, error: BaseException) -> BaseException:
        """Why the attempt failed; what is meant for the slot or the process is raised again."""
        match error:
            case Exception():
                return error
            case asyncio.CancelledError() if not self._closing:
                return Cancelled("the handler, or something that it waited for, was cancelled")
            case asyncio.CancelledError() | GeneratorExit():
                raise error
            case KeyboardInterrupt() if is_from_a_signal(error):
                raise error
            case _:
                return error

    async def _run(self, work: Any) -> Any:
        if self._timeout_s is None:
            return await _in_own_context(self._handler.run(work), self._suspended)
        limit = TimeLimit(self._timeout_s)
        try:
            async with limit:
                return await _in_own_context(self._handler.run(work), self._suspended)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise TimedOut(f"the handler was stopped after {self._timeout_s:g} s") from error


@types.coroutine
def _in_own_context(
    attempt: Coroutine[Any, Any, Any], suspended: Callable[[], None]
) -> Generator[Any, Any, Any]:
    # What a handler sets in its context variables must not be seen by the next one in the slot.
    run = contextvars.copy_context().run
    try:
        waiting_for = run(attempt.send, None)
    except StopIteration as stop:
        return stop.value
    except GeneratorExit as error:
        raise WorkError(_RAISED_GENERATOR_EXIT) from error
    suspended()
    while True:
        try:
            sent = yield waiting_for
        except GeneratorExit:
            # This one is meant for the slot, while those below were raised by the handler.
            attempt.close()
            raise
        except BaseException as error:
            step, value = attempt.throw, error
        else:
            step, value = attempt.send, sent
        try:
            waiting_for = run(step, value)
        except StopIteration as stop:
            return stop.value
        except GeneratorExit as error:
            raise WorkError(_RAISED_GENERATOR_EXIT) from error


def _one_each(results: Any, many: int) -> list[Outcome]:
    if not isinstance(results, Sequence) or isinstance(results, str | bytes):
        raise WorkError(
            f"a batch handler returns a list with one result for each of its {many} jobs, "
            f"got {type(results).__name__}"
        )
    each = cast(Sequence[Any], results)
    if len(each) != many:
        raise WorkError(
            f"a batch handler returns one result for each of its {many} jobs, got {len(each)}"
        )
    return [Failed(one) if isinstance(one, BaseException) else Done(one) for one in each]
