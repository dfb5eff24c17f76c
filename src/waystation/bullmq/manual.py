"""Manual processing: jobs claimed one by one by code that runs them itself.

For code that cannot be a handler: a script that processes ten jobs and ends, a framework with a
loop of its own, a person who decides. The locks of claimed jobs are renewed until the jobs end.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Generator
from typing import Any, Unpack

from waystation.bullmq.callbacks import Callbacks, Observed, Presence
from waystation.bullmq.fields import FAILING, known
from waystation.bullmq.job import Job, steps_of
from waystation.bullmq.payloads.options import PayloadOptions
from waystation.bullmq.payloads.sealing import Sealing
from waystation.bullmq.redis.client import QueueClient
from waystation.bullmq.redis.keys import PREFIX
from waystation.bullmq.source import BullSource
from waystation.bullmq.worker import (
    claim_options,
    duties,
    keep_for_another,
    leave_to_another,
    merged_options,
    prepare,
)
from waystation.bullmq.worker_keywords import ManualKeywords, WorkerKeywords
from waystation.core import identity
from waystation.core.durations import Duration, seconds
from waystation.core.errors import JobDelayed, KeyMissing, LeaseLost, StoreError, Unrecoverable
from waystation.core.options import checked
from waystation.core.outcome import Done, Failed, Outcome, Returned
from waystation.core.runtime.claim import Claim, Settled
from waystation.core.runtime.lease_keeper import LeaseKeeper
from waystation.core.runtime.listeners import ended
from waystation.core.runtime.tasks import end
from waystation.core.store.connection import Store

_CANNOT_UNDO = (
    "on_failure needs a worker with a handler, which is run again to undo; whoever claims jobs one "
    "by one undoes what was done before calling fail"
)


@checked
class ManualWorker(Observed, QueueClient):
    """Claims jobs of one queue for code that runs them itself.

    Each job ends with `complete`, `fail` or `give_back`; closing gives back the others.
    """

    def __init__(
        self,
        queue: str,
        url: str | Store | None = None,
        *,
        prefix: str = PREFIX,
        payloads: PayloadOptions | None = None,
        **given: Unpack[ManualKeywords],
    ) -> None:
        super().__init__(queue, url, prefix=prefix)
        self._sealing = Sealing(payloads)
        self._worker_options = merged_options(None, WorkerKeywords(**given))
        self._options = claim_options(
            self._worker_options, self._worker_options.name or identity.worker_name()
        )
        self._callbacks = Callbacks(None)
        self._held: dict[str, Claim[Job]] = {}
        self._found: deque[Claim[Job]] = deque()
        self._source: BullSource | None = None
        self._closers = contextlib.AsyncExitStack()

    async def get_next_job(self, wait: Duration = 0) -> Job | None:
        """Claim the next job, waiting up to this long for one; None when there was none."""
        source = await self._connected_source()
        until = asyncio.get_running_loop().time() + seconds(wait, "wait")
        while True:
            if not self._found:
                # More than one where several answers were lost; the others are for who asks next.
                claims = (await source.settle([], claim=1)).claims
                self._held.update((claim.id, claim) for claim in claims)
                self._found.extend(claims)
                self._callbacks.claimed(claims)
            while self._found:
                claim = self._found.popleft()
                if self._held.get(claim.id) is claim and await self._is_ready(claim):
                    return claim.work
            left = until - asyncio.get_running_loop().time()
            if left <= 0:
                return None
            await source.wait(left)

    async def complete(self, job: Job, result: Any = None) -> None:
        """End a job with its result, which is any JSON value."""
        if self._sealing.seals:
            result = await self._sealing.result(self.name, job, result)
        await self._end(job, Done(result))

    async def fail(self, job: Job, error: BaseException) -> None:
        """End an attempt; the job is retried or fails for good, as its options say."""
        await self._end(job, Failed(error))

    async def give_back(self, job: Job) -> None:
        """Return a job to the head of its queue; no attempt has been made."""
        await self._end(job, Returned())

    async def _is_ready(self, claim: Claim[Job]) -> bool:
        job = claim.work
        steps_of(job).cannot_undo = _CANNOT_UNDO
        try:
            await prepare(job, self._options)
            await self._sealing.open_data(job)
            if (reason := known(job, FAILING)) is not None:
                await self._leave_to_undo(job)
                raise Unrecoverable(reason.decode("utf-8", "replace"))
        except (JobDelayed, KeyMissing) as error:
            if isinstance(error, KeyMissing):
                with contextlib.suppress(JobDelayed):
                    await keep_for_another(job, error)
            self._held.pop(job.id, None)
            return False
        except Exception as error:
            with self._let_go(job):
                await self.fail(job, error)
            return False
        except BaseException:
            # Whoever asked for a job does not wait for it any more.
            with self._let_go(job):
                await asyncio.shield(self.give_back(job))
            raise
        return True

    @contextlib.contextmanager
    def _let_go(self, job: Job) -> Generator[None]:
        """End a job that nobody was given; one that cannot be ended now stalls."""
        try:
            yield
        finally:
            self._held.pop(job.id, None)

    async def _leave_to_undo(self, job: Job) -> None:
        """Leave a job to a worker with a handler, if that has something to undo."""
        if any(known(job, field) not in (None, b"0") for field in (b"undos", b"given")):
            await leave_to_another(job, f"job {job.id} is undone by a worker that has its handler")

    async def _end(self, job: Job, outcome: Outcome) -> None:
        source = await self._connected_source()
        claim = self._held.get(job.id)
        if claim is None or claim.token != job.token:
            raise LeaseLost(f"job {job.id} is not held by this {type(self).__name__}")
        reply = await source.settle([Settled(claim, outcome)], claim=0)
        self._held.pop(job.id, None)
        self._callbacks.settled(reply.settled)
        if reply.refused:
            self._callbacks.refused(reply.refused)
            raise reply.refused[0].reason

    async def _connected_source(self) -> BullSource:
        await self._connected()
        assert self._source is not None  # noqa: S101
        return self._source

    async def _on_connect(self, store: Store) -> None:
        callbacks = self._callbacks
        source = BullSource(
            store, self._keys, self._options, progressed=callbacks.progressed, sealing=self._sealing
        )
        presence = Presence(source, callbacks)
        self._closers.push_async_callback(presence.close)
        await presence.open()
        keeper = LeaseKeeper(
            source,
            held=lambda: list(self._held.values()),
            lost=self._lost,
            lease=self._options.lock_duration / 1000,
            every=self._options.lock_duration / 3000,
        )
        await self._closers.enter_async_context(keeper)
        background = duties(store, self._keys, self._worker_options, callbacks)
        running = [asyncio.create_task(duty.run()) for duty in background]
        self._closers.push_async_callback(end, running)
        self._source = source

    def _lost(self, claims: Any) -> None:
        for claim in claims:
            if self._held.get(claim.id) is claim:
                del self._held[claim.id]
                self._callbacks.lost([claim])

    async def close(self, force: bool = False) -> None:
        """Give back the jobs that have not ended, and leave; `force` changes nothing."""
        await ended(super().close(force), lambda: [self._callbacks.calls])

    async def _close(self) -> None:
        if self._source is not None and self._held:
            returned = [Settled(claim, Returned()) for claim in self._held.values()]
            # A store that does not answer gets them back when their locks run out.
            with contextlib.suppress(StoreError):
                await self._source.settle(returned, claim=0)
            self._held.clear()
        await super()._close()

    async def _on_leave(self) -> None:
        self._source = None
        await self._closers.aclose()
