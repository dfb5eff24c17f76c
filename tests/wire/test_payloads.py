"""What jobs carry, in both directions."""

from contextlib import aclosing
from typing import Any

import pytest

from tests.support.patience import LIMIT_S
from tests.wire.node import NodePeer
from tests.wire.steps import Steps
from waystation.bullmq import FlowNode, FlowProducer, Job, JobFailed, Queue, QueueEvents, Worker
from waystation.core import codec
from waystation.core.store.connection import Store

TEXT = "ü € 漢字 \U0001f600 \u2028 \x00 \\ / \" '"
VALUES: list[Any] = [
    None, True, False, 0, -7, 4.5, 1e21, 2**53 - 1, "", TEXT, [], [1, [None, {}]], {}, {TEXT: TEXT},
]  # fmt: skip
MEGABYTE = "ü" * 2**19


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:20])
async def test_data_and_results_of_every_kind_come_back_as_they_went(
    value: Any, any_node: NodePeer, queue: Queue, store: Store
) -> None:
    remote = any_node.queue("q")
    theirs = await remote.call("add", "theirs", value)
    async with Worker("q", lambda job: job.data, store):
        await remote.poll("getJobState", theirs["id"], gives="completed")
    ours = await queue.add("ours", value)
    await any_node.worker("q").until("completed")

    found = await remote.call("getJob", theirs["id"])
    assert found["returnvalue"] == found["data"] == value
    assert await ours.wait(timeout=60) == value


HALF = '"party \\ud83c"'
ODD = [
    f'{{"title":{HALF}}}',
    f"{{{HALF}:[{HALF}]}}",
    "[" * 1500 + HALF + "]" * 1500,
    '{"a":' * 1500 + "null" + "}" * 1500,
    '{"n":9007199254740993000000}',
]


@pytest.mark.parametrize("text", ODD, ids=["half", "halves", "lists", "objects", "number"])
async def test_odd_json_of_node_says_the_same_wherever_we_read_it(
    text: str, any_node: NodePeer, queue: Queue, store: Store
) -> None:
    found: dict[str, Any] = {}

    async def handle(job: Job) -> Any:
        found["data"] = job.data
        await job.update_progress(job.data)
        await job.update_data(job.data)
        return job.data

    remote, flow = any_node.queue("q"), any_node.flow()
    events = QueueEvents("q", store)
    async with events, FlowProducer(store) as flows:
        parent = await flow.call("add", {
            "name": "parent", "queueName": "parents",
            "children": [{"name": "child", "queueName": "q", "data": codec.decode(text)}],
        })  # fmt: skip
        child = parent["children"][0]["job"]["id"]
        ours = await queue.get_job(child)
        assert ours
        async with Worker("q", handle, store):
            found["awaited"] = await ours.wait(timeout=LIMIT_S)
        found["awaited by event"] = await ours.wait(LIMIT_S, events)
        async with aclosing(events.listen("0")) as stream:
            async for event in stream:
                assert event.corrupt is None
                if event.name == "progress":
                    found["told on the way"] = event.data
                if event.name == "completed":
                    found["told at the end"] = event.result
                    break
        await ours.refresh()
        found |= {"stored": ours.data, "progress": ours.progress, "result": ours.result}
        above = await ours.get_parent()
        assert above
        [found["as a child's"]] = (await above.children_values()).values()
        node = await flows.add(FlowNode(name="work", queue="echo", data=found["data"]))
        await any_node.worker("echo").until("completed")
        found["from Node"] = await node.job.wait(timeout=LIMIT_S)
        theirs = await remote.call("getJob", child)
        found |= {"Node's data": theirs["data"], "Node's result": theirs["returnvalue"]}

    same = codec.encode_as_node(codec.decode(text))
    written = {where: codec.encode_as_node(value) for where, value in found.items()}
    if "000000" in text:
        # Node has rounded it before it wrote it.
        same = written["Node's data"]
    assert [where for where, value in written.items() if value != same] == []


async def test_a_million_bytes_go_there_and_back(any_node: NodePeer, store: Store) -> None:
    remote, events = any_node.queue("q"), any_node.events("q")
    await remote.call("add", "large", {"text": MEGABYTE})
    async with Worker("q", lambda job: job.data, store):
        [completed] = await events.until("completed")

    assert completed["returnvalue"] == {"text": MEGABYTE}


async def test_names_ids_and_logs_may_be_any_text(
    any_node: NodePeer, queue: Queue, store: Store
) -> None:
    remote = any_node.queue("q")
    name = TEXT.replace("\x00", "")
    job = await queue.add(name, job_id="größe 漢字")
    await job.log(TEXT)
    await remote.call_job(job.id, "log", TEXT)
    async with Worker("q", Steps(store), store):
        await remote.poll("getJobState", job.id, gives="completed")

    assert (await remote.call("getJob", job.id))["name"] == name
    assert (await remote.call("getJobLogs", job.id))["logs"] == [TEXT, TEXT]


async def test_node_reads_why_and_where_our_handler_failed(
    any_node: NodePeer, store: Store
) -> None:
    remote, events = any_node.queue("q"), any_node.events("q")
    await remote.call("add", "work", {"do": [["throw", TEXT]]})
    async with Worker("q", Steps(store), store):
        [failed] = await events.until("failed")

    job = await remote.call("getJob", "1")
    assert failed["failedReason"] == job["failedReason"] == TEXT
    [trace] = job["stacktrace"]
    assert "do_throw" in trace
    assert "RuntimeError" in trace


async def test_we_read_why_and_where_a_node_handler_failed(
    any_node: NodePeer, queue: Queue
) -> None:
    job = await queue.add("work", {"do": [["throw", TEXT]]}, attempts=1)
    await any_node.worker("q").until("failed")

    with pytest.raises(JobFailed) as caught:
        await job.wait(timeout=60)
    assert str(caught.value) == TEXT
    await job.refresh()
    assert job.failed_reason == TEXT
    assert "handlers.mjs" in job.stacktrace[0]


async def test_a_result_that_is_no_json_fails_the_job_with_a_reason(
    node6: NodePeer, store: Store
) -> None:
    def handle(_: Job) -> object:
        return object()

    remote = node6.queue("q")
    await remote.call("add", "work", {})
    async with Worker("q", handle, store):
        await remote.poll("getJobState", "1", gives="failed")

    assert (await remote.call("getJob", "1"))["failedReason"]
