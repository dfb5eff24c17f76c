"""The queue's public API: states, listings, waiting for a result, events, dead letters, limits."""

import asyncio
import gc
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
from redis.asyncio import Redis

from tests.routing.harness import Harness
from tests.support.patience import LIMIT_S
from waystation.core.outcome import Failed
from waystation.core.store.commands import Entry
from waystation.errors import InvalidOption, JobFailed, NotFound, StoreUnreachable
from waystation.routing import (
    Event,
    Job,
    JobOptions,
    Limit,
    NewJob,
    Queue,
    Retry,
    Schedule,
    Worker,
    WorkerOptions,
)
from waystation.routing import queue as routing_queue
from waystation.routing.queue import JobState

ONCE = Retry(attempts=1)


async def test_an_added_job_has_what_it_was_given(harness: Harness) -> None:
    job = await harness.queue.add("email", {"to": "a"}, priority=8, job_id="one", retry=ONCE)

    assert (job.id, job.type, job.data) == ("one", "email", {"to": "a"})
    assert (job.priority, job.attempts, job.max_attempts) == (8, 0, 1)
    assert job.created_at == datetime.fromtimestamp(harness.clock.now_ms() / 1000, UTC)
    found = await harness.queue.get_job("one")
    assert found is not None
    assert found.raw == job.raw


async def test_keywords_count_before_options(harness: Harness) -> None:
    options = JobOptions(priority=2, job_id="one")
    job = await harness.queue.add("email", None, options, priority=9)
    assert (job.id, job.priority) == ("one", 9)


@pytest.mark.parametrize("by", ["job_id", "idempotency_key"])
async def test_a_job_that_was_there_before_is_returned_as_it_is_stored(
    by: str, harness: Harness
) -> None:
    given = JobOptions(job_id="k") if by == "job_id" else JobOptions(idempotency_key="k")
    first = await harness.queue.add("email", {"to": "ada"}, given, priority=8)
    for _ in range(2):
        second = await harness.queue.add("sms", {"to": "bob"}, given, priority=2)
        assert (second.id, second.raw) == (first.id, first.raw)
        assert (second.type, second.data, second.priority) == ("email", {"to": "ada"}, 8)
    new, old = await harness.queue.add_many([NewJob("sms", 1), NewJob("sms", 2, given)])
    assert (new.data, old.data) == (1, {"to": "ada"})
    if by == "job_id":
        return
    source = harness.source()
    for claim in await harness.claim(source, 2):
        await harness.settle(source, claim)
    ended = await harness.queue.add("sms", {"to": "bob"}, given)
    assert ended.id == first.id


async def test_units_are_seconds_and_datetimes_in_code_and_milliseconds_on_the_wire(
    harness: Harness,
) -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    delayed = await harness.queue.add("email", schedule=Schedule(delay=timedelta(seconds=1.5)))
    timed = await harness.queue.add("email", schedule=Schedule(run_at=at))

    assert b'"delay":1500' in delayed.raw
    assert b'"runAt":%d' % (at.timestamp() * 1000) in timed.raw
    assert (delayed.schedule.delay, timed.schedule.run_at) == (1.5, at)
    with pytest.raises(InvalidOption, match="time zone"):
        Schedule(run_at=datetime(2030, 1, 1))


async def test_jobs_are_listed_by_state(harness: Harness) -> None:
    dead = await harness.add(retry=ONCE)
    await harness.fail(harness.source())
    active = await harness.add()
    await harness.claim(harness.source())
    waiting = [await harness.add() for _ in range(3)]
    delayed = await harness.add(schedule=Schedule(delay=60))
    held = await harness.add(depends_on=(active,))

    async def ids(*states: object, **page: object) -> list[str]:
        return [job.id for job in await harness.queue.get_jobs(*states, **page)]  # pyright: ignore

    assert await ids() == [*waiting, active, delayed, held, dead]
    assert await ids("waiting", newest_first=True) == waiting[::-1]
    assert await ids("waiting", "active", offset=2, limit=2) == [waiting[2], active]
    assert await ids("dead", "held", offset=1) == [held]
    with pytest.raises(InvalidOption, match="a state must be one of waiting"):
        await ids("completed")


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("state", ["waiting", "delayed", "dead", "held", "active"])
async def test_the_pages_of_a_state_are_those_of_the_whole(
    harness: Harness, state: JobState, backwards: bool
) -> None:
    source, parent = harness.source(types=["t"]), await harness.add("parent")
    more = {"delayed": {"schedule": Schedule(delay=9)}, "held": {"depends_on": (parent,)}}
    for _ in range(7):
        await harness.add("t", retry=ONCE, **more.get(state, {}))
        if state == "dead":
            await harness.fail(source)
    if state == "active":
        await harness.claim(source, 7)

    async def ids(offset: int, limit: int) -> list[str]:
        found = await harness.queue.get_jobs(
            state, offset=offset, limit=limit, newest_first=backwards
        )
        return [job.id for job in found]

    whole = await ids(0, 100)
    assert len(whole) == 7 + (state == "waiting")
    assert [id for page in range(5) for id in await ids(2 * page, 2)] == whole
    await harness.redis.flushdb()


async def test_a_page_reads_no_more_ids_than_are_on_it(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = await harness.add("parent")
    held = NewJob("t", None, JobOptions(depends_on=(parent,)))
    for job in (NewJob("t"), held, NewJob("t", None, JobOptions(schedule=Schedule(delay=9)))):
        await harness.queue.add_many([job] * 3_000)
    pipe, sizes = harness.store.hot, list[int]()

    class Weighed:
        async def execute_command(self, *command: Any) -> Any:
            reply = await pipe.execute_command(*command)
            if command[0] in ("LRANGE", "ZRANGE", "HSCAN", "HKEYS"):
                sizes.append(len(reply[1] if command[0] == "HSCAN" else reply))
            return reply

    monkeypatch.setitem(harness.store.__dict__, "hot", Weighed())
    for state in get_args(JobState)[:4]:
        found = await harness.queue.get_jobs(state, offset=10, limit=10)
        assert len(found) == (0 if state == "active" else 10)
    # Two of ten ids, and what has no order takes the first thousand fields and values.
    assert sum(sizes) < 3_000
    await harness.redis.flushdb()


async def test_a_wait_leaves_no_client_behind(harness: Harness) -> None:
    async def clients() -> int:
        gc.collect()
        return sum(Redis in type(each).__mro__ for each in gc.get_objects())

    job = await harness.add()
    with pytest.raises(TimeoutError):
        await harness.queue.wait(job, timeout=0.01)
    before = await clients()
    for _ in range(10):
        with pytest.raises(TimeoutError):
            await harness.queue.wait(job, timeout=0.01)
    assert await clients() == before


async def test_a_wait_ends_although_its_event_was_trimmed_before_it_was_read(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await harness.add()

    async def busy(*_: object) -> AsyncGenerator[Sequence[Entry]]:
        # The queue is never quiet, and none of its events is of this job.
        source = harness.source()
        (claim,) = await harness.claim(source)
        await harness.settle(source, claim)
        while True:
            event = Event(id="1-1", line="routing", queue="q", name="active", at_ms=1, subject="x")
            yield [(b"1-1", {k.encode(): v.encode() for k, v in event.to_fields().items()})]
            await asyncio.sleep(0)

    monkeypatch.setattr(harness.queue, "_follow", busy)
    monkeypatch.setattr(routing_queue, "LOOK_S", 0.01)
    assert await harness.queue.wait(job, timeout=LIMIT_S) == "ok"


async def test_a_wait_outlives_a_hiccup_of_the_store(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await harness.add()
    follow, tries = harness.queue._follow, 0  # pyright: ignore[reportPrivateUsage]

    async def hiccup(*place: Any) -> AsyncGenerator[Sequence[Entry]]:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise StoreUnreachable("away for a moment")
        source = harness.source()
        (claim,) = await harness.claim(source)
        await harness.settle(source, claim)
        async for page in follow(*place):
            yield page

    monkeypatch.setattr(harness.queue, "_follow", hiccup)
    assert await harness.queue.wait(job, timeout=LIMIT_S) == "ok"


async def test_waiting_for_a_job_returns_its_result(harness: Harness) -> None:
    queue = Queue(harness.store)

    async def double(job: Job[int, int]) -> int:
        return 2 * job.data

    async with Worker(double, harness.store, concurrency=2):
        job = await queue.add("double", 21)
        assert await queue.wait(job.id, timeout=LIMIT_S) == 42
        # It has ended, and is still known.
        assert await queue.wait(job.id, timeout=LIMIT_S) == 42


async def test_waiting_for_a_job_that_does_not_end_well(harness: Harness) -> None:
    job = await harness.queue.add("email", retry=ONCE)
    with pytest.raises(TimeoutError, match=r"not finished within 0\.05 s: nobody fits: no worker"):
        await harness.queue.wait(job.id, timeout=0.05)
    waiting = asyncio.create_task(harness.queue.wait(job.id, timeout=LIMIT_S))
    source = harness.source()
    (claim,) = await harness.claim(source)
    await harness.settle(source, claim, Failed(ValueError("no")))
    with pytest.raises(JobFailed, match="ValueError: no"):
        await waiting

    cancelled = await harness.queue.add("email")
    await harness.queue.cancel(cancelled.id)
    with pytest.raises(JobFailed, match="cancelled"):
        await harness.queue.wait(cancelled.id)
    with pytest.raises(NotFound, match="no job nobody"):
        await harness.queue.wait("nobody")


async def test_events_come_as_they_happen_and_can_be_continued(harness: Harness) -> None:
    first = await harness.add()

    async def read(after: str, count: int) -> list[tuple[str, str | None, str]]:
        found: list[tuple[str, str | None, str]] = []
        async with asyncio.timeout(LIMIT_S), aclosing(harness.queue.events(after)) as events:
            async for event in events:
                assert event.type == "email"
                assert event.at.tzinfo is UTC
                found.append((event.name, event.job_id, event.id))
                if len(found) == count:
                    break
        return found

    seen = await read("0-0", 2)
    assert [each[:2] for each in seen] == [("added", first), ("waiting", first)]
    reading = asyncio.create_task(read(seen[-1][2], 2))
    second = await harness.add()
    assert [each[:2] for each in await reading] == [("added", second), ("waiting", second)]


async def test_dead_letters_are_listed_retried_and_deleted(harness: Harness) -> None:
    ids = [await harness.add(retry=ONCE) for _ in range(4)]
    for error in (ValueError("a"), KeyError("b"), ValueError("c"), KeyError("d")):
        await harness.fail(harness.source(), error)
    letters = harness.queue.dead_letters

    assert await letters.count() == 4
    assert [each.id for each in await letters.list()] == ids
    assert [each.id for each in await letters.list(offset=1, limit=2)] == ids[1:3]
    assert (await letters.list(limit=1))[0].failed_at is not None
    assert await harness.queue.retry(ids[3], "unknown") == 1
    assert await letters.retry_all(limit=1) == 1
    assert await letters.purge(error="KeyError") == 1
    assert [each.id for each in await letters.list()] == [ids[2]]
    assert await letters.remove(ids[2]) == 1
    assert await harness.waiting() == [ids[3], ids[0]]


async def test_limits_and_pauses_can_be_looked_up(harness: Harness) -> None:
    limit, queue = Limit(max_concurrent=2), harness.queue
    await queue.limits.set("email", limit)
    assert (await queue.limits.get("email"), await queue.limits.get("sms")) == (limit, None)
    assert await queue.limits.all() == {"email": limit}
    await queue.limits.remove("email")
    assert await queue.limits.all() == await queue.limits.running() == {}

    await queue.pause("email")
    assert await queue.is_paused("email")
    assert await queue.paused_types() == ["email"]
    await queue.resume("email")
    assert not await queue.is_paused("email")


async def test_schedules_can_be_looked_up_and_ended(harness: Harness) -> None:
    nightly = await harness.add(schedule=Schedule(cron="0 2 * * *", timezone="Europe/Vienna"))
    schedules = harness.queue.schedules
    found = await schedules.get(nightly)
    assert found is not None
    assert (found.type, found.cron, found.timezone) == ("email", "0 2 * * *", "Europe/Vienna")
    assert found.next_at
    assert found.next_at.tzinfo is UTC
    assert await schedules.count() == 1
    assert await schedules.remove(nightly, "unknown") == 1
    assert await schedules.list() == []
    assert await schedules.get(nightly) is None


def test_a_workers_keywords_count_before_its_options() -> None:
    worker = Worker(print, options=WorkerOptions(region="eu"), region="us", server="w1")
    assert worker.server == "w1"
    with pytest.raises(InvalidOption, match="concurency"):
        Worker(print, concurency=3)  # pyright: ignore
