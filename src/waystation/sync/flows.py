"""Trees of jobs, for code that waits."""

from collections.abc import Sequence
from typing import Any

import msgspec

from waystation.bullmq import flows
from waystation.bullmq.flows import FlowNode
from waystation.bullmq.payloads.options import PayloadOptions
from waystation.bullmq.payloads.sealing import Sealing
from waystation.bullmq.redis.keys import PREFIX
from waystation.bullmq.sync_job import SyncJob
from waystation.core.checked import checked
from waystation.core.durations import Duration
from waystation.core.store.connection import Store, blocking
from waystation.core.store.connection.blocking import BlockingStore
from waystation.sync.client import BlockingClient
from waystation.sync.events import QueueEvents
from waystation.sync.jobs import blocking_job


class FlowJob(msgspec.Struct, frozen=True):
    """A job of a flow, with those it waits for."""

    job: SyncJob
    """The job as it was added or read."""
    children: list["FlowJob"]
    """The jobs that it waits for."""


@checked
class FlowProducer(BlockingClient):
    """Adds trees of jobs over any queues of one store, and reads them back.

    `payloads` encrypts their data, or keeps large data outside the store.
    """

    def __init__(
        self,
        url: "str | BlockingStore | None" = None,
        *,
        prefix: str = PREFIX,
        payloads: PayloadOptions | None = None,
    ) -> None:
        super().__init__(url)
        self.prefix = prefix
        self._payloads = payloads

    def add(self, tree: FlowNode) -> FlowJob:
        """Add a tree of jobs, all or nothing."""
        return self.add_many([tree])[0]

    def add_many(self, trees: Sequence[FlowNode]) -> list[FlowJob]:
        """Add several trees of jobs, all or nothing."""
        return [self._read(each) for each in blocking.run(lambda: self._flows.add_many(trees))]

    def get_flow(
        self,
        queue: str,
        job_id: str,
        *,
        depth: int = 10,
        max_children: int = 20,
        prefix: str | None = None,
    ) -> FlowJob | None:
        """Read a job and its children, down to this depth; about so many of each kind a job."""
        found = blocking.run(
            lambda: self._flows.get_flow(
                queue, job_id, depth=depth, max_children=max_children, prefix=prefix
            )
        )
        return found and self._read(found)

    @property
    def _flows(self) -> "_BoundFlows":
        return _BoundFlows(self._store(), self.prefix, self._payloads)

    def _read(self, tree: flows.FlowJob) -> FlowJob:
        events = QueueEvents(tree.job.queue_name, self._store(), prefix=self.prefix)
        sealing = Sealing(self._payloads, here=True) if self._payloads else None

        def wait(job_id: str, timeout: Duration | None = None) -> Any:
            stored = events.wait(job_id, timeout)
            return stored if sealing is None else sealing.opened(stored)

        return FlowJob(blocking_job(tree.job, wait), [self._read(e) for e in tree.children])


class _BoundFlows(flows.FlowProducer):
    """The producer for a loop, over a store that is open and blocks."""

    _blocks = True

    def __init__(self, store: BlockingStore, prefix: str, payloads: PayloadOptions | None) -> None:
        super().__init__(store, prefix=prefix, payloads=payloads)
        self._bound = store

    async def _connected(self) -> Store:
        return self._bound
