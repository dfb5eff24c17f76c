"""A worker's events, by the names BullMQ gives them, and the callbacks for them. Internal."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, get_args, overload

from waystation.bullmq.job import Job
from waystation.bullmq.source import BullSource
from waystation.core.errors import StoreError
from waystation.core.outcome import Done, Failed
from waystation.core.runtime.claim import Claim, Refused, Settled
from waystation.core.runtime.listeners import Emitter
from waystation.core.runtime.worker import Listener

WorkerSignal: TypeAlias = Literal["closed", "closing", "drained", "paused", "ready", "resumed"]
"""Events of a worker whose callbacks get no arguments."""
WorkerEvent: TypeAlias = (
    Literal["active", "completed", "error", "failed", "lost", "progress", "refused", "stalled"]
    | WorkerSignal
)
"""Events of a worker, and the arguments of their callbacks:

- `active`: a job, before its handler runs
- `completed`: a job and its result, once they are stored
- `failed`: a job and the error of an attempt, once that is stored; `attempts_made` says which
- `progress`: a job and the progress that its handler has reported
- `refused`: a job and the error for which the outcome of its attempt was refused
- `lost`: a job whose lock ran out while its handler was running, which has been cancelled
- `stalled`: the id of a job whose worker has gone, and its state, `active`
- `drained`: no arguments; there was no job left to claim
- `error`: an error of the store, after which the worker tries again, or of a callback
- `ready`, `paused`, `resumed`, `closing`, `closed`: no arguments; the worker's own state
"""


class Callbacks(Emitter):
    """Calls the listener, and then the callbacks that were registered with `on`."""

    def __init__(self, listener: Listener[Job] | None) -> None:
        super().__init__([name for part in get_args(WorkerEvent) for name in get_args(part)])
        self._listener = listener

    def claimed(self, claims: Sequence[Claim[Job]]) -> None:
        """Jobs were claimed."""
        self._pass_on("claimed", claims)
        if self.is_heard("active"):
            for claim in claims:
                self.emit("active", claim.work)

    def settled(self, settled: Sequence[Settled[Job]]) -> None:
        """Outcomes were stored."""
        self._pass_on("settled", settled)
        if not (self.is_heard("completed") or self.is_heard("failed")):
            return
        for each in settled:
            match each.outcome:
                case Done(result):
                    self.emit("completed", each.claim.work, result)
                case Failed(error):
                    self.emit("failed", each.claim.work, error)
                case _:
                    pass

    def refused(self, refused: Sequence[Refused[Job]]) -> None:
        """Outcomes were refused."""
        self._pass_on("refused", refused)
        for each in refused:
            self.emit("refused", each.claim.work, each.reason)

    def lost(self, claims: Sequence[Claim[Job]]) -> None:
        """Locks ran out."""
        self._pass_on("lost", claims)
        for claim in claims:
            self.emit("lost", claim.work)

    def drained(self) -> None:
        """There was nothing left to claim."""
        self._pass_on("drained")
        self.emit("drained")

    def troubled(self, error: StoreError) -> None:
        """The store could not be asked."""
        self._pass_on("troubled", error)
        self.emit("error", error)

    def progressed(self, job: Job, progress: Any) -> None:
        """A handler has reported progress."""
        self.emit("progress", job, progress)

    def _pass_on(self, event: str, *what: Any) -> None:
        if self._listener is None:
            return
        method: Callable[..., Any] | None = getattr(self._listener, event, None)
        if method is not None:
            self.calls.call(event, method, *what)


class Observed:
    """A worker whose events can be listened to."""

    _callbacks: Callbacks

    @overload
    def on(self, event: Literal["active", "lost"], callback: Callable[[Job], Any]) -> None: ...
    @overload
    def on(
        self, event: Literal["completed", "progress"], callback: Callable[[Job, Any], Any]
    ) -> None: ...
    @overload
    def on(
        self, event: Literal["failed", "refused"], callback: Callable[[Job, Exception], Any]
    ) -> None: ...
    @overload
    def on(self, event: Literal["stalled"], callback: Callable[[str, str], Any]) -> None: ...
    @overload
    def on(self, event: Literal["error"], callback: Callable[[Exception], Any]) -> None: ...
    @overload
    def on(self, event: WorkerSignal, callback: Callable[[], Any]) -> None: ...
    def on(self, event: WorkerEvent, callback: Callable[..., Any]) -> None:
        """Call `callback` whenever the event happens in this worker; see `WorkerEvent`.

        Coroutines are awaited one after the other, while the worker goes on. An error that a
        callback raises is logged, and passed to the callbacks of `error`.
        """
        self._callbacks.on(event, callback)

    @overload
    def once(self, event: Literal["active", "lost"], callback: Callable[[Job], Any]) -> None: ...
    @overload
    def once(
        self, event: Literal["completed", "progress"], callback: Callable[[Job, Any], Any]
    ) -> None: ...
    @overload
    def once(
        self, event: Literal["failed", "refused"], callback: Callable[[Job, Exception], Any]
    ) -> None: ...
    @overload
    def once(self, event: Literal["stalled"], callback: Callable[[str, str], Any]) -> None: ...
    @overload
    def once(self, event: Literal["error"], callback: Callable[[Exception], Any]) -> None: ...
    @overload
    def once(self, event: WorkerSignal, callback: Callable[[], Any]) -> None: ...
    def once(self, event: WorkerEvent, callback: Callable[..., Any]) -> None:
        """Call `callback` the next time that the event happens."""
        self._callbacks.on(event, callback, once=True)

    def off(self, event: WorkerEvent, callback: Callable[..., Any]) -> bool:
        """Stop calling `callback`; False when it was not registered."""
        return self._callbacks.off(event, callback)


class Presence:
    """The worker's entry among the queue's workers, with its events `ready` and `closed`."""

    def __init__(self, source: BullSource, callbacks: Callbacks) -> None:
        self._source = source
        self._callbacks = callbacks
        self._is_open = False

    async def open(self) -> None:
        """Register the worker, then report that it is ready."""
        await self._source.open()
        self._is_open = True
        self._callbacks.emit("ready")

    async def close(self) -> None:
        """Leave, and wait for what listeners have begun."""
        await self._source.close()
        if self._is_open:
            self._callbacks.emit("closed")
        await self._callbacks.calls.finish()
