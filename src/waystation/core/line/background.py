"""The background worker: connects, runs and stops a product's worker."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

from waystation.core.errors import WorkError
from waystation.core.runtime.claim import Claim
from waystation.core.runtime.listeners import Calls, ended
from waystation.core.runtime.service import calling_on_signals
from waystation.core.runtime.tasks import end
from waystation.core.runtime.worker import Worker
from waystation.core.shared import Shared
from waystation.core.store.client import StoreClient
from waystation.core.store.connection import Store
from waystation.core.store.reconnect import waiting
from waystation.core.store.server import Facts, require_suitable
from waystation.core.telemetry.logs import get_logger

W = TypeVar("W")
_log = get_logger(__name__)

_AGAIN_AFTER_S = 5.0
"""Until a duty that has broken is begun again."""


class Presence(Protocol):
    """How a worker shows others that it is there."""

    async def open(self) -> None:
        """Register the worker."""

    async def close(self) -> None:
        """Remove the worker from the register."""


class WorkerRuntime(Generic[W]):
    """What a line brings along to have its work done."""

    __slots__ = ("background", "listening", "presence", "worker")

    def __init__(
        self,
        worker: Worker[W],
        presence: Presence,
        *,
        background: Sequence[Callable[[], Coroutine[Any, Any, None]]] = (),
        listening: Sequence[Calls] = (),
    ) -> None:
        self.worker = worker
        self.presence = presence
        self.background = background
        """What goes on until the worker ends."""
        self.listening = (worker.calls, *listening)
        """All calls of listeners that are waited for when it ends."""


class BackgroundWorker(StoreClient, ABC, Generic[W]):
    """A worker as its users hold it; entering starts it, leaving lets it finish."""

    # Here and not in `__init__`, because a line's worker may be attached in a way of its own.
    _runtime: WorkerRuntime[W] | None = None
    _running: asyncio.Task[None] | None = None
    _waiting: asyncio.Timeout | None = None

    @abstractmethod
    def _runtime_at(self, store: Store) -> WorkerRuntime[W]:
        """What is to be done at a store."""

    async def run(self, *, signals: bool = True, wait_s: float = 300.0) -> None:
        """Work until stopped, which with `signals` the first SIGTERM or SIGINT does, too.

        Running jobs then get their grace, and what is not done is handed back; a second signal ends
        the process at once. Signals are left alone outside of the main thread, and where the
        program has a handler of its own. A store that is away or loading when the worker starts is
        waited for, for up to `wait_s` seconds. To be cancelled is to be stopped.
        """
        starts_it = self._running is None
        with calling_on_signals(self.stop, take=False) if signals else nullcontext():
            await self._start_unless_stopped(wait_s)
            if self._running is None:
                return
            try:
                await asyncio.shield(self._running)
            finally:
                # Nobody else would end it, and it would go on to claim.
                if starts_it:
                    await self.close()

    async def _start_unless_stopped(self, wait_s: float) -> None:
        try:
            async with asyncio.timeout(None) as self._waiting:
                await self.start(wait_s=wait_s)
        except TimeoutError:
            if self._waiting is None or not self._waiting.expired():
                raise
        finally:
            self._waiting = None

    async def start(self, *, wait_s: float = 0.0) -> None:
        """Begin to work in the background; what fails can be tried again.

        A store that is away or loading is waited for, for up to `wait_s` seconds.
        """
        async with self._starting:
            if self._running is None:
                await waiting(self._start, at_most_s=wait_s)

    async def _start(self) -> None:
        try:
            store = await self._connected()
            # Those who start at the same time ask once.
            async with _suitable.using(store):
                pass
            runtime = self._runtime_at(store)
            try:
                await runtime.presence.open()
            except BaseException:
                await runtime.presence.close()
                raise
        except BaseException:
            await self._release()
            raise
        self._runtime = runtime
        self._running = asyncio.create_task(_work(runtime))

    def stop(self) -> None:
        """Finish what was begun and end; `run` returns when it is done."""
        if self._runtime:
            self._runtime.worker.stop()
        elif self._waiting:
            self._waiting.reschedule(0)

    async def close(self, force: bool = False) -> None:
        """Finish what was begun, or with `force` leave it to be recovered by others, and go."""
        self.stop()
        if force and self._running:
            self._running.cancel()
        await ended(super().close(force), self._listening)

    def _listening(self) -> Sequence[Calls]:
        return self._runtime.listening if self._runtime else ()

    async def _close(self) -> None:
        # One that is about to begin is waited for, because it would go on without a store.
        async with self._starting:
            running = self._running
        self.stop()
        if running:
            await asyncio.wait([running])
        await super()._close()
        self._running = None
        if running and not running.cancelled():
            running.result()

    def pause(self) -> None:
        """Take no more jobs until resumed; this worker only, not its queue."""
        self._started.pause()

    def resume(self) -> None:
        """Take jobs again."""
        self._started.resume()

    @property
    def held(self) -> Collection[Claim[W]]:
        """What it works on at this moment."""
        return self._runtime.worker.held if self._runtime else ()

    @property
    def is_paused(self) -> bool:
        """Whether the worker takes no jobs for now."""
        return self._runtime is not None and self._runtime.worker.paused

    @property
    def is_running(self) -> bool:
        """Whether the worker is at work."""
        return self._running is not None and not self._running.done()

    def cancel_job(self, job_id: str) -> bool:
        """Stop the handler of one job, which then fails; False if it does not run here."""
        return self._runtime is not None and self._runtime.worker.cancel(job_id)

    def cancel_all_jobs(self) -> int:
        """Stop the handlers of all jobs that run here."""
        return sum(self.cancel_job(claim.id) for claim in self.held)

    async def _enter(self) -> None:
        await self.start()

    @cached_property
    def _starting(self) -> asyncio.Lock:
        return asyncio.Lock()

    @property
    def _started(self) -> Worker[W]:
        if self._runtime is None:
            raise WorkError(f"the worker {self!r} has not been started")
        return self._runtime.worker


async def _forget(facts: Facts) -> None: ...


async def _ask(store: Store) -> Facts:
    return await require_suitable(store.redis)


_suitable = Shared(_ask, _forget)


async def _going_on(duty: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Do it until it is cancelled: the work of others must not depend on one mistake in it."""
    while True:
        try:
            return await duty()
        except Exception:
            _log.exception("duty_failed")
        await asyncio.sleep(_AGAIN_AFTER_S)


async def _work(runtime: WorkerRuntime[Any]) -> None:
    background = [asyncio.create_task(_going_on(each)) for each in runtime.background]
    try:
        await runtime.worker.run()
    except Exception:
        # Whoever holds the worker learns of it when they close it, which may be never.
        _log.exception("worker_failed")
        raise
    finally:
        await end(background)
        await runtime.presence.close()
