"""Listening to a queue, and adding events of one's own."""

import asyncio
import base64
import contextlib
import gc
from collections.abc import AsyncIterator
from itertools import islice
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.support.listening import blocked_on, first
from tests.support.patience import LIMIT_S
from waystation.bullmq import Job, Queue, Worker
from waystation.bullmq.events import finishes
from waystation.bullmq.events.event import QueueEvent, read_event
from waystation.bullmq.events.stream import NOW, START, QueueEvents, QueueEventsProducer
from waystation.bullmq.redis.keys import QueueKeys
from waystation.core.errors import (
    InvalidOption,
    JobFailed,
    NotFound,
    StoreUnreachable,
    WrongType,
)
from waystation.core.store import embedded
from waystation.core.store.connection import StoreOptions, connect
from waystation.sync import Queue as SyncQueue

KEYS = QueueKeys("mail")


@pytest.fixture
async def events(redis_url: str) -> AsyncIterator[QueueEvents]:
    async with QueueEvents("mail", redis_url) as opened:
        yield opened


async def write_event(redis: Redis, event: str, **fields: Any) -> str:
    id: Any = await redis.xadd(KEYS.events, {"event": event, **fields})
    return id.decode()


def names(events: list[QueueEvent]) -> list[str]:
    return [event.name for event in events]


# --- what an entry says --------------------------------------------------------------------------


def test_values_are_decoded_and_reasons_stay_as_they_are() -> None:
    done = read_event(
        "mail", b"17-3", {b"event": b"completed", b"jobId": b"7", b"returnvalue": b'{"sent":true}'}
    )
    failed = read_event(
        "mail", b"18-0", {b"event": b"failed", b"jobId": b"7", b"failedReason": b'"no"'}
    )
    assert (done.id, done.at_ms, done.job_id) == ("17-3", 17, "7")
    assert done.result == {"sent": True}
    assert failed.failed_reason == '"no"'


def test_what_an_event_tells_besides_is_kept_as_text() -> None:
    event = read_event(
        "mail",
        b"1-0",
        {b"event": b"deduplicated", b"jobId": b"1", b"deduplicationId": b"a"},
    )
    assert event.fields == {"deduplicationId": "a"}
    assert event.corrupt is None


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ({b"event": b"completed", b"jobId": b"7", b"returnvalue": b"{nope"}, "returnvalue: "),
        ({b"event": b"completed", b"jobId": b"7"}, "no returnvalue"),
        ({b"event": b"progress", b"jobId": b"7", b"data": b"\xff"}, "data: "),
        ({b"event": b"delayed", b"jobId": b"7", b"delay": b"soon"}, "delay must be a whole number"),
        ({b"jobId": b"7"}, "no event"),
    ],
)
def test_an_entry_that_makes_no_sense_says_so(entry: dict[bytes, bytes], complaint: str) -> None:
    event = read_event("mail", b"1-0", entry)
    assert complaint in (event.corrupt or "")
    assert event.job_id == "7"


# --- listening -----------------------------------------------------------------------------------


async def test_iterating_tells_everything_since_it_was_opened(redis: Redis, redis_url: str) -> None:
    await write_event(redis, "added", jobId="1", name="before")
    async with QueueEvents("mail", redis_url) as events:
        await write_event(redis, "waiting", jobId="1")
        await write_event(redis, "active", jobId="1", prev="waiting", workerId="w1")
        received = await first(aiter(events), 2)
    assert names(received) == ["waiting", "active"]
    assert (received[1].prev, received[1].worker) == ("waiting", "w1")


async def test_listening_begins_at_any_position(redis: Redis, events: QueueEvents) -> None:
    ids = [await write_event(redis, "waiting", jobId=str(number)) for number in range(4)]

    assert [e.job_id for e in await first(events.listen(START), 4)] == ["0", "1", "2", "3"]
    assert [e.job_id for e in await first(events.listen(ids[1]), 2)] == ["2", "3"]
    listening = asyncio.create_task(first(events.listen(NOW), 1))
    await blocked_on(redis)
    await write_event(redis, "drained")
    assert names(await listening) == ["drained"]


async def test_more_events_than_one_answer_holds_are_told_in_order(
    redis: Redis, events: QueueEvents
) -> None:
    async with redis.pipeline(transaction=False) as pipe:
        for number in range(2500):
            pipe.xadd(KEYS.events, {"event": "waiting", "jobId": str(number)})
        await pipe.execute()
    received = await first(events.listen(START), 2500)
    assert [event.job_id for event in received] == [str(number) for number in range(2500)]


async def test_a_position_that_is_none_is_refused(events: QueueEvents) -> None:
    with pytest.raises(InvalidOption, match="a position is '\\$' or an event's id"):
        await anext(events.listen("yesterday"))


async def test_a_bad_entry_does_not_end_the_listening(redis: Redis, events: QueueEvents) -> None:
    await write_event(redis, "completed", jobId="1", returnvalue="{nope")
    await redis.xadd(KEYS.events, {b"\xff\xfe": b"\xff"})
    await write_event(redis, "completed", jobId="2", returnvalue="null")

    bad, worse, good = await first(events.listen(START), 3)

    assert bad.corrupt
    assert worse.corrupt
    assert good.corrupt is None
    assert good.job_id == "2"


async def test_dashboards_find_the_listener_by_its_name(redis: Redis, events: QueueEvents) -> None:
    listening = asyncio.create_task(first(events.listen(), 1))
    await blocked_on(redis)
    clients: list[dict[str, str]] = await redis.client_list()
    wanted = f"bull:{base64.b64encode(b'mail').decode()}:qe"
    assert [client["name"] for client in clients].count(wanted) == 1
    await write_event(redis, "drained")
    await listening


async def test_closing_ends_the_listening(redis: Redis, redis_url: str) -> None:
    events = QueueEvents("mail", redis_url)
    listening = asyncio.create_task(first(events.listen(), 1))
    await blocked_on(redis)
    await events.close()
    assert await listening == []
    assert (await redis.info("clients"))["blocked_clients"] == 0


async def test_listening_goes_on_where_it_was_after_the_store_has_been_away() -> None:
    with embedded.ephemeral({"appendonly": "yes", "appendfsync": "always"}) as server:
        async with QueueEvents("mail", server.url) as events:
            async with Redis.from_url(server.url, protocol=2) as redis:
                waiting = asyncio.create_task(first(aiter(events), 2))
                await write_event(redis, "waiting", jobId="1")
                await blocked_on(redis)
            server.kill()
            server.restart()
            async with Redis.from_url(server.url, protocol=2) as redis:
                await write_event(redis, "waiting", jobId="2")
            assert [event.job_id for event in await waiting] == ["1", "2"]


async def test_whoever_waits_for_a_job_goes_on_after_the_store_has_been_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(finishes, "_LOOK_AGAIN_S", 0.05)

    async def send(job: Job) -> str:
        return "sent"

    with embedded.ephemeral({"appendonly": "yes", "appendfsync": "always"}) as server:
        async with Queue("mail", server.url) as queue, asyncio.timeout(LIMIT_S):
            with SyncQueue("mail", server.url) as without_a_loop:
                job = await queue.add("send")
                waiting = [
                    asyncio.create_task(queue.wait(job.id)),
                    asyncio.create_task(asyncio.to_thread(without_a_loop.wait, job.id)),
                ]
                async with Redis.from_url(server.url, protocol=2) as redis:
                    await blocked_on(redis, 2)
                server.kill()
                assert not (await asyncio.wait(waiting, timeout=0.3))[0]
                await asyncio.to_thread(server.restart)
                async with Worker("mail", send, server.url):
                    assert await asyncio.gather(*waiting) == ["sent", "sent"]


async def test_what_cannot_heal_ends_the_listening_with_the_reason(
    redis: Redis, events: QueueEvents
) -> None:
    await redis.set(KEYS.events, "not a stream")
    with pytest.raises(WrongType, match="bull:mail:events must hold a stream, but holds a string"):
        await anext(events.listen(START))


async def test_a_shared_store_is_not_closed(redis: Redis, redis_url: str) -> None:
    async with await connect(redis_url, StoreOptions()) as store:
        async with QueueEvents("mail", store) as events:
            await write_event(redis, "drained")
            assert names(await first(aiter(events), 1)) == ["drained"]
        assert await store.hot.execute_command("PING") == b"PONG"


# --- waiting for a job to end --------------------------------------------------------------------


async def store_job(redis: Redis, id: str, **fields: str) -> None:
    await redis.hset(KEYS.of(id).job, mapping={"name": "send", **fields})  # pyright: ignore


async def test_a_job_that_has_already_ended_is_recorded_at_once(
    redis: Redis, events: QueueEvents
) -> None:
    await store_job(redis, "1", returnvalue='{"sent":1}')
    await redis.zadd(KEYS.completed, {"1": 1})
    await store_job(redis, "2", failedReason="no such address")
    await redis.zadd(KEYS.failed, {"2": 1})

    assert await events.wait("1") == {"sent": 1}
    with pytest.raises(JobFailed, match="no such address"):
        await events.wait("2")


async def test_many_jobs_are_awaited_on_one_connection(redis: Redis, events: QueueEvents) -> None:
    ids = [str(number) for number in range(50)]
    for id in ids:
        await store_job(redis, id)
    waits = [asyncio.create_task(events.wait(id)) for id in ids]
    await blocked_on(redis)
    assert (await redis.info("clients"))["blocked_clients"] == 1
    for id in ids:
        await write_event(redis, "completed", jobId=id, returnvalue=id)
    async with asyncio.timeout(LIMIT_S):
        assert await asyncio.gather(*waits) == [int(id) for id in ids]


async def test_a_failure_while_waiting_is_raised_with_its_reason(
    redis: Redis, events: QueueEvents
) -> None:
    await store_job(redis, "1")
    waiting = asyncio.create_task(events.wait("1"))
    await blocked_on(redis)
    await write_event(redis, "failed", jobId="1", failedReason="the printer is on fire")
    with pytest.raises(JobFailed, match="the printer is on fire"):
        await waiting


async def test_the_end_of_a_job_that_is_not_kept_is_still_told(
    redis: Redis, events: QueueEvents
) -> None:
    """However the end falls between listening and looking, it is seen."""
    for number in islice(range(100), 20):
        id = str(number)
        await store_job(redis, id)
        waiting = asyncio.create_task(events.wait(id))
        for _ in range(number % 7):
            await asyncio.sleep(0)
        async with redis.pipeline(transaction=True) as step:
            step.delete(KEYS.of(id).job)
            step.xadd(KEYS.events, {"event": "completed", "jobId": id, "returnvalue": id})
            await step.execute()
        with contextlib.suppress(NotFound):  # it ended before the wait had begun
            async with asyncio.timeout(LIMIT_S):
                assert await waiting == number


async def test_waiting_for_a_job_that_is_not_there_says_so(events: QueueEvents) -> None:
    with pytest.raises(NotFound, match="there is no job 404"):
        await events.wait("404")


async def test_waiting_for_a_job_that_is_removed_says_so(redis: Redis, events: QueueEvents) -> None:
    await store_job(redis, "1")
    waiting = asyncio.create_task(events.wait("1"))
    await blocked_on(redis)
    await redis.delete(KEYS.of("1").job)
    await write_event(redis, "removed", jobId="1", prev="wait")
    with pytest.raises(NotFound, match="there is no job 1"):
        await waiting


async def test_waiting_ends_after_its_time(redis: Redis, events: QueueEvents) -> None:
    await store_job(redis, "1")
    with pytest.raises(TimeoutError, match=r"job 1 has not finished within 0\.03 s"):
        await events.wait("1", timeout=0.03)


async def test_closing_lets_nobody_wait_for_ever(redis: Redis, redis_url: str) -> None:
    events = QueueEvents("mail", redis_url)
    await store_job(redis, "1")
    waiting = asyncio.create_task(events.wait("1"))
    await blocked_on(redis)
    await events.close()
    with pytest.raises(StoreUnreachable, match="has been closed"):
        await waiting


# --- adding events -------------------------------------------------------------------------------


async def test_an_event_of_ones_own_reaches_the_listeners(
    redis_url: str, events: QueueEvents
) -> None:
    async with QueueEventsProducer("mail", redis_url) as producer:
        id = await producer.publish("reviewed", {"by": "ann", "marks": [1, 2]})
    (event,) = await first(aiter(events), 1)
    assert (event.id, event.name) == (id, "reviewed")
    assert event.fields == {"by": "ann", "marks": "[1,2]"}


@pytest.mark.parametrize("name", ["", "completed", "progress"])
async def test_an_event_of_ones_own_cannot_pose_as_one_of_the_queue(
    redis: Redis, redis_url: str, name: str
) -> None:
    async with QueueEventsProducer("mail", redis_url) as producer:
        with pytest.raises(InvalidOption, match="needs a name that BullMQ does not use"):
            await producer.publish(name)
        with pytest.raises(InvalidOption, match="the field 'event'"):
            await producer.publish("reviewed", {"event": "completed"})
        with pytest.raises(InvalidOption, match="max_len must be at least 1, got 0"):
            await producer.publish("reviewed", max_len=0)
    assert await redis.exists(KEYS.events) == 0


async def test_a_producer_keeps_the_stream_short(redis: Redis, redis_url: str) -> None:
    async with QueueEventsProducer("mail", redis_url) as producer:
        for number in range(500):
            await producer.publish("tick", {"number": number}, max_len=100)
    assert await redis.xlen(KEYS.events) < 300


async def test_listening_now_and_then_keeps_nothing(redis: Redis, events: QueueEvents) -> None:
    await write_event(redis, "added", jobId="1")

    async def listen_once() -> list[Redis]:
        async with contextlib.aclosing(events.listen(START)) as stream:
            assert (await anext(stream)).job_id == "1"
        gc.collect()
        # By its type, because what Django loads late is asked for its class by `isinstance`.
        return [each for each in gc.get_objects() if issubclass(type(each), Redis)]

    # Other tests may have left clients of their own, which are collected at some time.
    known = set(map(id, first := await listen_once()))
    assert [each for each in await listen_once() if id(each) not in known] == []
    assert first
