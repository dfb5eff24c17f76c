"""A trace goes on from one side to the other."""

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from tests.wire.node import NodePeer
from waystation.bullmq import Job, Queue, Worker
from waystation.core import codec
from waystation.core.store.connection import Store

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


async def test_node_reads_the_trace_that_our_producer_was_in(
    any_node: NodePeer, queue: Queue
) -> None:
    tracer = TracerProvider().get_tracer("test")
    with tracer.start_as_current_span("order") as span:
        job = await queue.add("work")
        trace_id = trace.format_trace_id(span.get_span_context().trace_id)

    found = await any_node.queue("q").call("getJob", job.id)
    carrier = codec.decode(found["opts"]["telemetry"]["metadata"], dict[str, str])
    assert trace_id in carrier["traceparent"]


async def test_our_handler_reads_the_trace_of_a_node_producer(
    any_node: NodePeer, store: Store
) -> None:
    remote = any_node.queue("q")
    carried = codec.encode({"traceparent": f"00-{TRACE}-{SPAN}-01"}).decode()
    await remote.call("add", "work", {}, {"telemetry": {"metadata": carried}})
    seen: list[str | None] = []

    async def handle(job: Job) -> None:
        seen.append(job.options.telemetry)

    async with Worker("q", handle, store):
        await remote.poll("getCompletedCount", gives=1)

    assert seen == [carried]


async def test_a_job_without_a_trace_carries_none(any_node: NodePeer, queue: Queue) -> None:
    job = await queue.add("work")

    assert "telemetry" not in (await any_node.queue("q").call("getJob", job.id))["opts"]
