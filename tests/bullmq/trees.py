"""Trees of jobs in the queue that tests move by hand."""

from typing import Any

from waystation.bullmq import FlowJob, FlowNode, JobOptions


def child(name: str = "child", /, **options: Any) -> FlowNode:
    """A job that somebody waits for; it is tried once."""
    return FlowNode(name=name, queue="mail", options=JobOptions(attempts=1, **options))


def parent(*children: FlowNode, **options: Any) -> FlowNode:
    """A job named and called parent, which waits for these."""
    return FlowNode(
        name="parent",
        queue="mail",
        options=JobOptions(attempts=1, job_id="parent", **options),
        children=children,
    )


async def state(flow: FlowJob) -> str:
    """Where the job at the top of a tree is."""
    return await flow.job.state()
