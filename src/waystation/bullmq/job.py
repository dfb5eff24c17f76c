"""One job: what its hash says, and what can be done with it."""

import inspect
from typing import Any

from waystation.bullmq import children
from waystation.bullmq.children import Dependencies
from waystation.bullmq.fields import COUNTED, Changed, JobFields
from waystation.bullmq.job_steps import JobSteps
from waystation.bullmq.redis.keys import JobKeys
from waystation.bullmq.redis.queue_scripts import read_jobs
from waystation.bullmq.sync_job import SyncJob
from waystation.bullmq.whole_job import QueueRef
from waystation.core.errors import NotFound, WrongState
from waystation.core.runtime.handlers.calls import Call, Calls


class Job(JobFields, JobSteps, Dependencies):
    """A job as it was when it was read; what an `async def` handler gets, and `get_job` returns."""

    __slots__ = ("_queue",)

    def __init__(
        self, id: str, fields: dict[bytes, bytes], queue: QueueRef | None, token: str | None = None
    ) -> None:
        # Without `super()`: one is made for every job that is claimed or added.
        JobFields.__init__(self, id, fields, token)
        self._queue = queue

    @property
    def queue(self) -> QueueRef:
        """The queue it lives in."""
        if self._queue is None:
            raise WrongState(
                f"job {self.id} has no way to a queue: it was made without one, or pickled"
            )
        return self._queue

    @property
    def keys(self) -> JobKeys:
        """Where it is kept."""
        return self.queue.keys.of(self.id)

    async def get_parent(self) -> "Job | None":
        """The job that waits for this one; None when nobody does."""
        place = children.parent_place(self.parent_key, self._text(b"parent"))
        if place is None:
            return None
        client = self.queue.client
        fields = await children.hash_at(client, place.queue.of(place.id).job)
        return Job(place.id, fields, QueueRef(client, place.queue)) if fields else None

    async def refresh(self) -> None:
        """Read the job again."""
        keys = self.queue.keys
        [fields] = await read_jobs(self.queue.client, keys, base=keys.base, ids=[self.id])
        if not fields:
            raise NotFound(f"there is no job {self.id}")
        fields[COUNTED] = b""
        if self.discarded:
            fields[b"discarded"] = b"1"
        self.replace(fields)

    def view(self, calls: Calls) -> SyncJob:
        """The job as a plain handler gets it."""
        return SyncJob(self.id, dict(self._fields), self.token, self.queue.keys, calls)

    async def perform(self, call: Call) -> tuple[Any, Changed]:
        """Do a step for a plain handler: what it gives, and what it has changed."""
        *way, step = call.step.split(".")
        job = self
        for _ in way:
            parent = await job.get_parent()
            if parent is None:
                raise NotFound(f"job {job.id} has no parent any more")
            job = parent
        known = job._fields
        before = dict(known)
        result = getattr(job, step)(*call.args, **call.kwargs)
        if inspect.isawaitable(result):
            result = await result
        if isinstance(result, Job):
            result = result.id, result._fields, result.queue.keys
        return result, job._changed_since(known, before)

    def _changed_since(self, known: dict[bytes, bytes], before: dict[bytes, bytes]) -> Changed:
        now = self._fields
        if now is not known:
            return Changed(now, is_all=True)
        changed = {name: value for name, value in now.items() if before.get(name) is not value}
        return Changed(changed, is_all=False)

    def __repr__(self) -> str:
        return f"Job({self.id!r}, {self.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # The way to the store stays where it is.
        return Job, (self.id, self._fields, None, self.token)
