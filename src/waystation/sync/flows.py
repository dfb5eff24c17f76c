"""Trees of jobs, for code that waits.

Written by `make docs` from the code for a loop; do not edit.
"""

from collections.abc import Sequence

from waystation.bullmq.flows import FlowNode
from waystation.core.options import checked
from waystation.sync.bound import BlockingFlows, FlowJob


@checked
class FlowProducer(BlockingFlows):
    """Adds trees of jobs over any queues of one store, and reads them back.

    `payloads` encrypts their data, or keeps large data outside the store.
    """

    def add(self, tree: FlowNode) -> FlowJob:
        """Add a tree of jobs, all or nothing."""
        return self._do("add", tree)

    def add_many(self, trees: Sequence[FlowNode]) -> list[FlowJob]:
        """Add several trees of jobs, all or nothing."""
        return self._do("add_many", trees)

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
        return self._do(
            "get_flow", queue, job_id, depth=depth, max_children=max_children, prefix=prefix
        )
