"""Sandbox for plain `def` tests, and `sandbox()`, which opens either kind."""

import asyncio
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack
from typing import Any, TypeVar, Unpack, overload

from waystation.bullmq import PayloadOptions, SyncJob
from waystation.core.durations import Duration, DurationKeywords
from waystation.core.errors import WrongState
from waystation.sync import Queue
from waystation.tasks import Tasks
from waystation.testing.sandboxes import Handlers, Sandbox, oldest_first, opened, such_jobs

T = TypeVar("T")


class SyncSandbox:
    """Queues, workers and a clock for one plain test; `with sandbox()` opens one.

    It has the methods of `Sandbox`, without `await`, and its queues are those of `waystation.sync`.
    """

    def __init__(self, box: Sandbox, runner: asyncio.Runner, closing: ExitStack) -> None:
        """Internal: `sandbox` makes it."""
        self.url = box.url
        """The server's URL, for code under test that opens queues of its own."""
        self._box = box
        self._runner = runner
        self._closing = closing
        self._queues: dict[str, Queue] = {}

    def queue(self, name: str) -> Queue:
        """The queue of this name."""
        if name not in self._queues:
            self._box.queue(name)  # so that `advance` turns its time, too
            queue = Queue(
                name, self.url, prefix=self._box.prefix(name), payloads=self._box.payloads(name)
            )
            self._queues[name] = self._closing.enter_context(queue)
        return self._queues[name]

    @overload
    def handle(self, queue: Tasks, /) -> None: ...
    @overload
    def handle(
        self, queue: str, handlers: Handlers, *, payloads: PayloadOptions | None = None
    ) -> None: ...
    def handle(
        self,
        queue: str | Tasks,
        handlers: Handlers | None = None,
        *,
        payloads: PayloadOptions | None = None,
    ) -> None:
        """Let `run_all` run the jobs of a queue with a handler, or with one for each name.

        Given typed tasks, it runs those of all their queues, and until the sandbox is closed they
        add their jobs here, wherever their own store is. `payloads` are those of the queue.
        """
        given: Any = queue
        if isinstance(queue, Tasks):
            self._box.handle(given)
        else:
            self._box.handle(given, handlers, payloads=payloads)  # pyright: ignore[reportArgumentType]
        # What was opened before may have had another prefix.
        self._queues.clear()

    def fail(
        self, queue: str, name: str, *, attempt: int = 1, error: BaseException | None = None
    ) -> None:
        """Let this attempt of jobs with this name fail, without running the handler."""
        self._box.fail(queue, name, attempt=attempt, error=error)

    def run_all(self, *, timeout: Duration = 30.0) -> None:
        """Run what can run now, retries that are due included; what is delayed stays.

        Raises `TimeoutError` when jobs still run after `timeout`, and `NoHandler` when jobs wait,
        but none of them in a queue that has a handler.
        """
        self._run(self._box.run_all(timeout=timeout))

    def advance(self, duration: Duration | None = None, **given: Unpack[DurationKeywords]) -> None:
        """Turn the time of delays, retries, sleeps and time-outs forward, such as `days=3`."""
        self._run(self._box.advance(duration, **given))

    def added(self, queue: str, name: str | None = None) -> list[SyncJob]:
        """The jobs of a queue in any state, the oldest first, or those with one name."""
        return oldest_first(self.queue(queue).get_jobs(limit=None), name)

    def assert_added(
        self, queue: str, name: str, data: Any = None, *, count: int | None = None
    ) -> list[SyncJob]:
        """Fail unless such a job was added, or exactly `count` of them; returns them.

        `data` is what the job's data must be, or for an object what it must contain.
        """
        return such_jobs(self.added(queue), queue, name, data, count)

    def _run(self, step: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(step)


class Opening(AbstractAsyncContextManager[Sandbox], AbstractContextManager[SyncSandbox]):
    """A sandbox that is about to be opened, by `async with` or by `with`."""

    def __init__(self, url: str | None = None) -> None:
        """Internal: `sandbox` makes it."""
        self._opened = opened(url)
        self._closing = ExitStack()

    async def __aenter__(self) -> Sandbox:
        return await self._opened.__aenter__()

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._opened.__aexit__(*error)

    def __enter__(self) -> SyncSandbox:
        if _has_loop():
            raise WrongState("an event loop runs here: open it with `async with sandbox()`")
        with ExitStack() as closing:
            runner = closing.enter_context(asyncio.Runner())
            box = runner.run(self._opened.__aenter__())
            closing.callback(lambda: runner.run(self._opened.__aexit__(None, None, None)))
            self._closing = closing.pop_all()
        return SyncSandbox(box, runner, self._closing)

    def __exit__(self, *error: Any) -> bool | None:
        return self._closing.__exit__(*error)


def sandbox(url: str | None = None) -> Opening:
    """Open a sandbox on an empty server of its own, or on the one at `url`.

    `async with sandbox() as box` gives a `Sandbox`, and `with sandbox() as box`, for plain tests, a
    `SyncSandbox`.
    """
    return Opening(url)


def _has_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
