"""What a worker tells: its events, by the names BullMQ gives them, and who listens to them."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, get_args

from waystation.bullmq.job import Job
from waystation.core.errors import StoreError
from waystation.core.outcome import Done, Failed
from waystation.core.runtime.claim import Claim, Refused, Settled
from waystation.core.runtime.listeners import Emitter
from waystation.core.runtime.worker import Listener

WorkerEvent: TypeAlias = Literal[
    "active",
    "closed",
    "closing",
    "completed",
    "drained",
    "error",
    "failed",
    "lost",
    "paused",
    "progress",
    "ready",
    "refused",
    "resumed",
    "stalled",
]
"""What a worker tells, and what its callbacks are given:

- `active`: a job, before its handler runs
- `completed`: a job and its result, once they are stored
- `failed`: a job and the error of an attempt, once that is stored; `attempts_made` says which
- `progress`: a job and what its handler has said about how far it is
- `refused`: a job and why the outcome of its attempt did not count
- `lost`: a job whose lock ran out while its handler was running, which has been cancelled
- `stalled`: the id of a job that another worker has left behind, and its state, `active`
- `drained`: nothing; there was no job left to take
- `error`: an error of the store, after which the worker tries again, or of another callback
- `ready`, `paused`, `resumed`, `closing`, `closed`: nothing; what has become of the worker
"""


class Callbacks(Emitter):
    """Tells whoever asked with `on`, and one listener before them."""

    def __init__(self, listener: Listener[Job] | None) -> None:
        super().__init__(get_args(WorkerEvent))
        self._listener = listener

    def claimed(self, claims: Sequence[Claim[Job]]) -> None:
        """These came in."""
        self._pass_on("claimed", claims)
        if self.is_heard("active"):
            for claim in claims:
                self.emit("active", claim.work)

    def settled(self, settled: Sequence[Settled[Job]]) -> None:
        """These outcomes were accepted."""
        self._pass_on("settled", settled)
        if not self.is_heard("completed", "failed"):
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
        """These outcomes did not count."""
        self._pass_on("refused", refused)
        for each in refused:
            self.emit("refused", each.claim.work, each.reason)

    def lost(self, claims: Sequence[Claim[Job]]) -> None:
        """These leases ran out."""
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
        """A handler has said how far it is."""
        self.emit("progress", job, progress)

    def _pass_on(self, event: str, *what: Any) -> None:
        method: Callable[..., Any] | None = getattr(self._listener, event, None)
        if method is not None:
            self.calls.call(event, method, *what)
