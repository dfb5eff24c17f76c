"""JSON that is odd, or none: the same answer wherever it is read, and no attempt wasted on it."""

import asyncio
from typing import Any

import pytest

from tests.bullmq.hands import Hands
from tests.support.listening import first
from tests.support.patience import LIMIT_S
from waystation.bullmq import Deduplication, Job, JobFailed, Parent, Queue, QueueEvents, Worker
from waystation.core.errors import InvalidInput


@pytest.mark.parametrize("where", ["loop", "thread", "process"])
async def test_data_that_cannot_be_read_fails_the_job_at_once(
    hands: Hands, redis_url: str, where: str
) -> None:
    id = await hands.add(attempts=5)
    await hands.call("HSET", hands.keys.of(id).job, "data", '{"to": "ada"')

    async def on_the_loop(job: Job) -> Any:
        return job.data

    handler = on_the_loop if where == "loop" else data_of
    queue = Queue(hands.keys.name, hands.store)
    worker = Worker(hands.keys.name, handler, redis_url, process=where == "process")
    async with queue, worker, asyncio.timeout(LIMIT_S):
        job = await queue.get_job(id)
        assert job
        with pytest.raises(JobFailed, match=f"the data of job {id}: the JSON cannot be read"):
            await job.wait()
    stored = await hands.hash(id)
    assert (stored["atm"], stored["ats"]) == ("1", "1")


async def test_a_result_that_is_no_json_is_the_same_text_wherever_it_is_read(
    hands: Hands, queue: Queue, redis_url: str
) -> None:
    job = await queue.add("send")
    await hands.complete(await hands.claim_one())
    before = (await hands.call("XREVRANGE", hands.keys.events, "+", "-", "COUNT", 1))[0][0].decode()
    await hands.call("HSET", hands.keys.of(job.id).job, "returnvalue", "{oops", "progress", "{oops")
    await hands.call(
        "XADD", hands.keys.events, "*", *told("completed", job.id, returnvalue="{oops")
    )
    await hands.call("XADD", hands.keys.events, "*", *told("progress", job.id, data="{oops"))
    await job.refresh()

    async with QueueEvents("mail", redis_url) as events:
        assert await job.wait(10, events) == "{oops"
        heard = await first(events.listen(before), 2)
    assert await job.wait(timeout=10) == "{oops"
    assert job.result == job.progress == "{oops"
    assert [event.result or event.data for event in heard] == ["{oops", "{oops"]
    assert all("cannot be read" in (event.corrupt or "") for event in heard)


async def test_text_with_half_a_character_may_be_logged(queue: Queue) -> None:
    job = await queue.add("send")
    await job.log("party \ud83c")
    assert (await job.logs()).lines == ["party \\ud83c"]


@pytest.mark.parametrize(
    "options",
    [
        {"job_id": "half \ud83c"},
        {"deduplication": Deduplication("half \ud83c")},
        {"parent": Parent("half \ud83c", "bull:mail")},
    ],
    ids=["job_id", "deduplication", "parent"],
)
async def test_an_id_with_half_a_character_is_refused(
    queue: Queue, hands: Hands, options: dict[str, Any]
) -> None:
    before = await hands.everything()
    with pytest.raises(InvalidInput, match="lone surrogate"):
        await queue.add("send", {}, **options)
    assert await hands.everything() == before


def data_of(job: Job) -> Any:
    return job.data


def told(event: str, job_id: str, **fields: str) -> list[str]:
    return ["event", event, "jobId", job_id, *(part for pair in fields.items() for part in pair)]
