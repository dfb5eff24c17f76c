"""What a job emits, over HTTP: to readers who come late, leave and come back."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest

from tests.console import harness
from tests.console.harness import ConsoleApi
from tests.support.patience import LIMIT_S
from waystation.bullmq import Job, Queue, Worker
from waystation.console.options import ConsoleOptions
from waystation.core import codec

LAST = "last-event-id"


class Event(NamedTuple):
    """One event of a stream."""

    name: str
    data: Any
    id: str


def events_in(text: str) -> list[Event]:
    found: list[Event] = []
    for block in text.split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in block.splitlines())
        data = codec.decode(fields["data"].encode())
        found.append(Event(fields["event"], data, fields.get("id", "")))
    return [each for each in found if each.name != "quiet"]


@pytest.fixture
async def queue(redis_url: str) -> AsyncIterator[Queue]:
    async with Queue("words", redis_url) as opened:
        yield opened


def path(job_id: str) -> str:
    return f"/api/v1/queues/bullmq/words/jobs/{job_id}/output"


async def read(api: ConsoleApi, job_id: str, **headers: str) -> list[Event]:
    answer = await api.here.get(path(job_id), headers=headers)
    assert answer.headers["content-type"] == "text/event-stream"
    return events_in(answer.text)


async def read_some(api: ConsoleApi, job_id: str, after: str, many: int) -> list[Event]:
    """Read so many events, and leave without a word."""
    received, left = [b""], asyncio.Event()

    async def receive() -> dict[str, Any]:
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        received[0] += message.get("body", b"")
        if len(events_in(received[0].decode())) >= many or not message.get("more_body", True):
            left.set()

    scope: Any = {
        "type": "http",
        "method": "GET",
        "path": path(job_id),
        "raw_path": path(job_id).encode(),
        "query_string": f"after={after}".encode(),
        "headers": [(b"host", b"localhost:8090")],
        "client": ("127.0.0.1", 1234),
    }
    await api.app(scope, receive, send)
    return events_in(received[0].decode())


async def count(job: Job) -> str:
    for number in range(job.data):
        await job.emit(number)
    return "done"


async def test_late_readers_get_everything_and_how_it_ended(
    api: ConsoleApi, queue: Queue, redis_url: str
) -> None:
    async with Worker("words", count, redis_url):
        job = await queue.add("count", 3)
        await queue.wait(job.id, timeout=LIMIT_S)

    *parts, end = await read(api, job.id)
    assert [each.data for each in parts] == [0, 1, 2]
    assert end == Event("end", {"state": "completed"}, "end")
    again = await read(api, job.id, **{LAST: parts[0].id})
    assert again == [*parts[1:], end]
    # The browser comes again once more, and learns that there is no more.
    assert (await api.here.get(path(job.id), headers={LAST: end.id})).status_code == 204


async def test_readers_who_leave_and_come_back_lose_nothing_and_get_nothing_twice(
    api: ConsoleApi, queue: Queue, redis_url: str
) -> None:
    seen = asyncio.Event()

    async def slowly(job: Job) -> None:
        for number in range(20):
            await job.emit(number)
            await asyncio.sleep(0)
            if number == 9:
                # The rest comes when somebody has read the first half.
                await seen.wait()

    async with asyncio.timeout(LIMIT_S), Worker("words", slowly, redis_url):
        job = await queue.add("count")
        received: list[Event] = []
        after = "0-0"
        try:
            while not received or received[-1].name != "end":
                some = await read_some(api, job.id, after, many=3)
                # What was on its way when the reader left was not seen.
                received += some[:3]
                after = received[-1].id
                if len(received) >= 9:
                    seen.set()
        finally:
            seen.set()
    assert [each.data for each in received[:-1]] == list(range(20))
    assert len({each.id for each in received}) == 21


async def test_a_reader_hears_how_a_job_failed(
    api: ConsoleApi, queue: Queue, redis_url: str
) -> None:
    async def fails(job: Job) -> None:
        await job.emit("first")
        raise LookupError("no such word")

    async with Worker("words", fails, redis_url):
        job = await queue.add("count", attempts=1)
        first, end = await asyncio.wait_for(read(api, job.id), LIMIT_S)
    assert (first.data, end.data) == ("first", {"state": "failed", "reason": "no such word"})


async def test_what_cannot_be_read_is_refused(
    api: ConsoleApi, queue: Queue, redis_url: str
) -> None:
    job = await queue.add("count", 1)
    assert (await api.here.get(path("nobody"))).status_code == 404
    wrong = await api.here.get(path(job.id), headers={LAST: "yesterday"})
    assert (wrong.status_code, wrong.json()["detail"]) == (
        400,
        "a place is the id of a part such as 17-0, got 'yesterday'",
    )
    async with harness.api(redis_url, ConsoleOptions(streams=0)) as full:
        assert (await full.here.get(path(job.id))).status_code == 204


async def test_somebody_without_a_key_reads_nothing(guarded: ConsoleApi, queue: Queue) -> None:
    job = await queue.add("count", 1)
    assert (await guarded.here.get(path(job.id))).status_code == 401
