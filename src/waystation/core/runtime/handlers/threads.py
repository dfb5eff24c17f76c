"""Functions run in threads that no process has to wait for when it ends."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeAlias

_Call: TypeAlias = tuple["Future[Any]", Callable[[], Any]]


class Threads:
    """A pool that starts a thread for each call that finds no idle one.

    Whoever calls decides how many run at once: a call never waits behind one that hangs. The
    standard library's pool would also keep the process from ending until every thread is done, and
    a function that was given up cannot be stopped.
    """

    def __init__(self, *, name: str) -> None:
        self._name = name
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._started = 0

    async def run(self, function: Callable[[], Any]) -> Any:
        """Call the function in a thread; one that has begun goes on when nobody waits for it."""
        outcome: Future[Any] = Future()
        if not self._idle.acquire(blocking=False):
            self._started += 1
            name = f"{self._name}-{self._started}"
            threading.Thread(target=self._serve, name=name, daemon=True).start()
        self._calls.put((outcome, function))
        return await asyncio.wrap_future(outcome)

    def close(self) -> None:
        """Take no more calls; what runs is left to itself."""
        for _ in range(self._started):
            self._calls.put(None)

    def _serve(self) -> None:
        while call := self._calls.get():
            outcome, function = call
            answer = _answer(outcome, function) if outcome.set_running_or_notify_cancel() else None
            # Idle before anybody can know, so that whoever calls next starts no other thread.
            self._idle.release()
            if answer:
                answer()
            # What was answered is not held on to while this thread waits for more.
            del call, outcome, function, answer


def _answer(outcome: "Future[Any]", function: Callable[[], Any]) -> Callable[[], None]:
    try:
        return partial(outcome.set_result, function())
    except StopIteration as error:
        # No future takes it, because it would end the coroutine that waits, without a word.
        stopped = RuntimeError(f"the handler raised {type(error).__name__}")
        stopped.__cause__ = error
        return partial(outcome.set_exception, stopped)
    except BaseException as error:
        return partial(outcome.set_exception, error)
