"""Functions run in threads that no process has to wait for when it ends."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeAlias

_Call: TypeAlias = tuple["Future[Any]", Callable[[], Any]]


class Threads:
    """A pool whose threads are started as they are needed.

    The standard library's would keep the process from ending until every thread is done, and a
    function that was given up cannot be stopped.
    """

    def __init__(self, limit: int, *, name: str) -> None:
        self._limit = limit
        self._name = name
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._started = 0

    async def run(self, function: Callable[[], Any]) -> Any:
        """Call the function in a thread; one that has begun goes on when nobody waits for it."""
        outcome: Future[Any] = Future()
        self._calls.put((outcome, function))
        if not self._idle.acquire(blocking=False) and self._started < self._limit:
            self._started += 1
            name = f"{self._name}-{self._started}"
            threading.Thread(target=self._serve, name=name, daemon=True).start()
        return await asyncio.wrap_future(outcome)

    def resize(self, limit: int) -> None:
        """Start up to so many threads; those that have been started stay."""
        self._limit = limit

    def close(self) -> None:
        """Take no more calls; what runs is left to itself."""
        for _ in range(self._started):
            self._calls.put(None)

    def _serve(self) -> None:
        while call := self._calls.get():
            outcome, function = call
            if outcome.set_running_or_notify_cancel():
                _answer(outcome, function)
            # What was answered is not held on to while this thread waits for more.
            del call, outcome, function
            self._idle.release()


def _answer(outcome: "Future[Any]", function: Callable[[], Any]) -> None:
    try:
        result = function()
    except StopIteration as error:
        # No future takes it, because it would end the coroutine that waits, without a word.
        stopped = RuntimeError(f"the handler raised {type(error).__name__}")
        stopped.__cause__ = error
        outcome.set_exception(stopped)
    except BaseException as error:
        outcome.set_exception(error)
    else:
        outcome.set_result(result)
