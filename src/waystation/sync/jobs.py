"""Jobs for code that waits: a `SyncJob` whose calls are made here and now. Internal."""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from waystation.bullmq.fields import Changed
from waystation.bullmq.job import Job
from waystation.bullmq.sync_job import SyncJob
from waystation.core.runtime.handlers.calls import Call, Calls
from waystation.core.store.connection import blocking

T = TypeVar("T")

Wait: TypeAlias = Callable[..., Any]
"""Waits for the end of the job with this id, at most so long."""


class CallsHere(Calls):
    """Calls to a job whose client blocks."""

    def __init__(self, job: Job, wait: Wait) -> None:
        self._job = job
        self._wait = wait

    def ask(self, call: Call) -> Any:
        """Make one call."""
        if call.step == "wait":
            result = self._wait(self._job.id, *call.args, **call.kwargs)
            return result, Changed({}, is_all=False)
        return blocking.run(lambda: self._job.perform(call))

    def make(self, call: Call, read: Callable[[Any], T]) -> T:
        """Make one call and read the answer, also where a loop runs."""
        return read(self.ask(call))


def blocking_job(job: Job, wait: Wait) -> SyncJob:
    """The job for code that waits."""
    return job.view(CallsHere(job, wait))
