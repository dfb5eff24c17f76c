"""JSON that is odd, or none: the same answer wherever it is read, and no attempt wasted on it."""

import asyncio
import reprlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.bullmq.harness import Harness
from tests.laws.any_json import TEXTS
from tests.support.listening import first
from tests.support.patience import LIMIT_S
from waystation import sync
from waystation.bullmq import (
    Deduplication,
    Job,
    JobFailed,
    Parent,
    Queue,
    QueueEvents,
    Schedule,
    Worker,
)
from waystation.bullmq.fields import JobFields
from waystation.core.errors import InvalidInput


@pytest.mark.parametrize("where", ["loop", "thread", "process"])
async def test_data_that_cannot_be_read_fails_the_job_at_once(
    harness: Harness, redis_url: str, where: str
) -> None:
    id = await harness.add(attempts=5)
    await harness.call("HSET", harness.keys.of(id).job, "data", '{"to": "ada"')

    async def on_the_loop(job: Job) -> Any:
        return job.data

    handler = on_the_loop if where == "loop" else data_of
    queue = Queue(harness.keys.name, harness.store)
    worker = Worker(harness.keys.name, handler, redis_url, process=where == "process")
    async with queue, worker, asyncio.timeout(LIMIT_S):
        job = await queue.get_job(id)
        assert job
        with pytest.raises(JobFailed, match=f"the data of job {id}: the JSON cannot be read"):
            await job.wait()
    stored = await harness.hash(id)
    assert (stored["atm"], stored["ats"]) == ("1", "1")


async def test_a_result_that_is_no_json_is_the_same_text_wherever_it_is_read(
    harness: Harness, queue: Queue, redis_url: str
) -> None:
    job = await queue.add("send")
    await harness.complete(await harness.claim_one())
    before = (await harness.call("XREVRANGE", harness.keys.events, "+", "-", "COUNT", 1))[0][
        0
    ].decode()
    await harness.call(
        "HSET", harness.keys.of(job.id).job, "returnvalue", "{oops", "progress", "{oops"
    )
    await harness.call(
        "XADD", harness.keys.events, "*", *event_fields("completed", job.id, returnvalue="{oops")
    )
    await harness.call(
        "XADD", harness.keys.events, "*", *event_fields("progress", job.id, data="{oops")
    )
    await job.refresh()

    async with QueueEvents("mail", redis_url) as events:
        assert await job.wait(LIMIT_S, events) == "{oops"
        received = await first(events.listen(before), 2)
    assert await job.wait(timeout=LIMIT_S) == "{oops"
    assert job.result == job.progress == "{oops"
    assert [event.result or event.data for event in received] == ["{oops", "{oops"]
    assert all("cannot be read" in (event.corrupt or "") for event in received)


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
    queue: Queue, harness: Harness, options: dict[str, Any]
) -> None:
    before = await harness.everything()
    with pytest.raises(InvalidInput, match="lone surrogate"):
        await queue.add("send", {}, **options)
    assert await harness.everything() == before


def data_of(job: Job) -> Any:
    return job.data


def event_fields(event: str, job_id: str, **fields: str) -> list[str]:
    return ["event", event, "jobId", job_id, *(part for pair in fields.items() for part in pair)]


FIELDS = [
    *("name", "data", "opts", "timestamp", "delay", "priority", "progress", "returnvalue", "pb"),
    *(
        "stacktrace",
        "failedReason",
        "atm",
        "ats",
        "stc",
        "parent",
        "deid",
        "rjk",
        "defa",
        "failing",
    ),
]
MEMBERS = [
    *("attempts", "backoff", "delay", "priority", "lifo", "removeOnComplete", "removeOnFail", "kl"),
    *(
        "stackTraceLimit",
        "sizeLimit",
        "de",
        "parent",
        "terms",
        "repeat",
        "tm",
        "jobId",
        "prevMillis",
    ),
    *("timestamp", "fpof", "cpof", "idof", "rdof", "repeatJobKey"),
]
RECORD = [
    "name",
    "data",
    "opts",
    "every",
    "pattern",
    "tz",
    "limit",
    "startDate",
    "endDate",
    "offset",
]
META = ["paused-by", "concurrency", "max", "duration", "opts.maxLenEvents", "version", "history"]


def odd_jobs() -> Iterator[dict[str, Any]]:
    """The fields of jobs, each with one member that is something else than it should be."""
    sound = {"name": "odd", "data": "{}", "opts": '{"attempts":1}', "timestamp": "1", "delay": "0"}
    for odd in TEXTS:
        yield from ({**sound, field: odd} for field in FIELDS)
        for member in MEMBERS:
            yield {**sound, "opts": f'{{"attempts":1,"{member}":{odd or "null"}}}'}


async def test_the_next_job_runs_whatever_json_another_client_has_written(
    harness: Harness, redis_url: str
) -> None:
    jobs = list(odd_jobs())
    async with harness.redis.pipeline(transaction=False) as pipe:
        for number, fields in enumerate(jobs):
            flat = [part for pair in fields.items() for part in pair]
            pipe.execute_command("HSET", harness.keys.of(f"odd{number}").job, *flat)
            pipe.lpush(harness.keys.wait, f"odd{number}")
        await pipe.execute()
    ran: list[str] = []

    async def handler(job: Job) -> Any:
        ran.append(job.name)
        return job.data

    async with Queue("mail", redis_url) as queue:
        good = await queue.add("good", 7)
        async with Worker("mail", handler, redis_url, concurrency=20), asyncio.timeout(4 * LIMIT_S):
            assert await good.wait() == 7
        with sync.Queue("mail", redis_url) as waiting:
            listed = await asyncio.to_thread(
                lambda: waiting.get_jobs("completed", "failed", limit=None)
            )
        # Some say that only so many are kept.
        assert listed
        for job in listed:
            [reprlib.repr(getattr(job, name)) for name in SHOWN]
    assert ran


SHOWN = [
    name for name, each in vars(JobFields).items() if isinstance(each, property) and name != "data"
]


@pytest.mark.parametrize("where", ["meta", "scheduler"])
async def test_the_next_job_runs_whatever_stands_in_meta_or_in_a_scheduler(
    harness: Harness, queue: Queue, where: str
) -> None:
    async def handler(job: Job) -> Any:
        return job.data

    for odd in TEXTS:
        await queue.obliterate(force=True)
        for field in RECORD if where == "scheduler" else ():
            id = await queue.schedulers.upsert(field, Schedule(every=60), name="tick")
            await harness.call("HSET", f"{harness.keys.repeat}:{field}", field, odd)
            assert id
        for field in META if where == "meta" else ():
            await harness.call("HSET", harness.keys.meta, field, odd)
        async with Worker("mail", handler, harness.store), asyncio.timeout(LIMIT_S):
            good = await queue.add("good", 7)
            assert await good.wait() == 7, odd
        await queue.schedulers.list()
        await queue.meta()
        await queue.limits.get_rate_limit()


@pytest.mark.parametrize("odd", [*TEXTS, "9" * 30, "-" + "9" * 30])
def test_a_job_can_be_looked_at_whatever_its_fields_are(odd: str) -> None:
    job = Job(
        "1",
        {field.encode(): odd.encode() for field in (*FIELDS, "finishedOn", "processedOn")},
        None,
    )

    assert all(reprlib.repr(getattr(job, name)) for name in SHOWN)
