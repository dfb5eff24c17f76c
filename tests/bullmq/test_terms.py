"""One job's own terms: its time limit, its expiry, its deadline, and when it is not retried."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.bullmq.harness import Harness
from tests.bullmq.trees import child, parent
from tests.support.patience import LIMIT_S
from waystation.bullmq import (
    FlowProducer,
    Job,
    JobOptions,
    NewJob,
    Queue,
    Schedule,
    SyncJob,
    Worker,
)
from waystation.bullmq import worker as preparing
from waystation.bullmq.scheduling import schedulers
from waystation.core.errors import Expired, InvalidOption, JobFailed, StoreUnreachable, TimedOut
from waystation.core.outcome import Done, Failed

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


async def outcome(
    url: str, handle: Callable[[Any], Any], *, worker: Any = None, **options: Any
) -> Job:
    """The job after a worker has seen it through."""
    how: Any = worker or {}
    async with Queue("mail", url) as queue, Worker("mail", handle, url, **how):
        job = await queue.add("send", {"to": "ada"}, **options)
        with contextlib.suppress(JobFailed):
            await queue.wait(job.id, timeout=LIMIT_S)
        await job.refresh()
        return job


async def test_a_store_that_is_away_for_a_moment_fails_no_job(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked before a handler runs is no part of it."""
    away = Counter[str]()

    def at_first_away(home: Any, name: str) -> None:
        step = getattr(home, name)

        async def asked(*given: Any, **more: Any) -> Any:
            away[name] += 1
            if away[name] < 6:
                raise StoreUnreachable("the store cannot be reached")
            return await step(*given, **more)

        monkeypatch.setattr(home, name, asked)

    at_first_away(preparing, "server_ms")
    at_first_away(schedulers, "_advance")
    async with Queue("mail", redis_url) as queue, Worker("mail", lambda job: "sent", redis_url):
        job = await queue.add("send", expires=3600, attempts=1)
        assert await queue.wait(job.id, LIMIT_S) == "sent"
        id = await queue.schedulers.upsert("daily", Schedule(every=3600))
        assert await queue.wait(id, LIMIT_S) == "sent"
        assert await queue.count() == 1


async def sleep_for_ever(job: Job) -> None:
    await asyncio.Event().wait()


async def test_an_attempt_ends_when_the_jobs_time_is_up(redis_url: str) -> None:
    job = await outcome(redis_url, sleep_for_ever, timeout=0.05, attempts=2, backoff=None)
    assert job.failed_reason == "the handler was stopped after 0.05 s, as the job asks"
    assert job.attempts_made == 2


async def test_a_plain_function_is_told_that_its_time_is_up(redis_url: str) -> None:
    def handle(job: SyncJob) -> None:
        while not job.cancelled:
            time.sleep(0.005)

    job = await outcome(redis_url, handle, timeout=timedelta(milliseconds=50), attempts=1)
    assert job.failed_reason
    assert "as the job asks" in job.failed_reason


async def test_the_time_limit_of_the_worker_holds_as_well(redis_url: str) -> None:
    job = await outcome(
        redis_url, sleep_for_ever, worker={"timeout": 0.05}, timeout=LIMIT_S * 10, attempts=1
    )
    assert job.failed_reason == "the handler was stopped after 0.05 s"


async def test_a_job_that_was_not_begun_in_time_fails_without_being_run(redis_url: str) -> None:
    ran: list[str] = []
    job = await outcome(redis_url, lambda job: ran.append(job.id), expires=LONG_AGO, attempts=5)
    assert ran == []
    assert job.failed_reason
    assert job.failed_reason.startswith("the job had not begun ")
    assert job.attempts_made == 1


async def test_a_job_that_has_begun_does_not_expire(harness: Harness, queue: Queue) -> None:
    ran: list[int] = []

    def handle(job: SyncJob) -> None:
        ran.append(job.attempt)

    job = await queue.add("send", expires=LONG_AGO, attempts=3, backoff=None)
    # Another worker started it in time, and handed it back.
    await harness.hand_back(await harness.claim_one())
    async with Worker("mail", handle, harness.store):
        await queue.wait(job.id, timeout=LIMIT_S)
    assert ran == [1]


async def test_nothing_is_tried_after_the_deadline(redis_url: str) -> None:
    ran: list[str] = []

    def handle(job: SyncJob) -> None:
        ran.append(job.id)
        raise ConnectionError("no")

    job = await outcome(redis_url, handle, deadline=LIMIT_S, attempts=5, backoff=LIMIT_S * 2)
    assert len(ran) == 1
    assert job.failed_reason == "no"
    late = await outcome(redis_url, handle, deadline=LONG_AGO)
    assert len(ran) == 1
    assert late.failed_reason
    assert late.failed_reason.startswith("the job's deadline was ")


async def test_a_handler_is_stopped_at_the_deadline(redis_url: str) -> None:
    job = await outcome(redis_url, sleep_for_ever, deadline=0.3, attempts=5)
    assert job.failed_reason
    assert "deadline" in job.failed_reason


async def test_a_predicate_decides_what_is_tried_again(redis_url: str) -> None:
    def handle(job: SyncJob) -> None:
        raise ConnectionError("later") if job.attempt == 1 else LookupError("never")

    def is_worth_it(error: BaseException, job: Job) -> bool:
        return isinstance(error, ConnectionError)

    job = await outcome(
        redis_url, handle, worker={"retry_if": is_worth_it}, attempts=9, backoff=None
    )
    assert (job.attempts_made, job.failed_reason) == (2, "never")


async def test_a_predicate_that_fails_costs_no_attempt(redis_url: str) -> None:
    def handle(job: SyncJob) -> None:
        raise LookupError("no")

    def broken(error: BaseException, job: Job) -> bool:
        raise TypeError("broken")

    job = await outcome(redis_url, handle, worker={"retry_if": broken}, attempts=2, backoff=None)
    assert job.attempts_made == 2
    assert "retry_if failed" in job.stacktrace[0]


async def test_a_job_is_unique_for_a_while_by_its_name_and_data(queue: Queue) -> None:
    first = await queue.add("send", {"to": "ada"}, unique_for=3600)
    again = await queue.add("send", {"to": "ada"}, unique_for=3600)
    other = await queue.add("send", {"to": "bob"}, unique_for=3600)
    named = await queue.add("call", {"to": "ada"}, unique_for=3600)
    assert first.id == again.id
    assert len({first.id, other.id, named.id}) == 3
    unique = JobOptions(unique_for=timedelta(hours=1))
    many = await queue.add_many([NewJob("send", {"to": to}, unique) for to in ("ada", "cyd")])
    assert many[0].id == first.id
    assert await queue.counts("waiting") == {"waiting": 4}


async def test_results_of_children_come_in_order_and_by_name(
    harness: Harness, flows: FlowProducer
) -> None:
    names = ["charge", "pack", "mail", "bill", "thank"]
    await flows.add(parent(*(child(name, ignore_dependency_on_failure=True) for name in names)))
    held = await harness.claim(5)
    # The last ends first, and one fails.
    for claim in reversed(held):
        name = claim.work.name
        await harness.end(
            claim, Failed(LookupError("no")) if name == "mail" else Done(name.upper())
        )
    top = (await harness.claim_one()).work
    results = await top.children_results()
    assert [each.name for each in results] == names
    assert {each.name: each.result for each in results}["charge"] == "CHARGE"
    assert [each.failed_reason for each in results if each.name == "mail"] == ["no"]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"timeout": 0}, "timeout must be more than 0 seconds"),
        ({"expires": datetime(2030, 1, 1)}, "expires needs a time zone"),
        ({"deadline": "soon"}, "deadline must be a timedelta or seconds"),
        ({"expires": 5, "delay": 10}, "expires counts from now on, so it must be longer"),
        ({"unique_for": -1}, "unique_for must be a timedelta or seconds"),
    ],
)
def test_what_cannot_be_meant_is_refused(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidOption, match=sentence):
        JobOptions(**wrong)


async def test_terms_that_cannot_be_read_count_as_none(harness: Harness, queue: Queue) -> None:
    job = await queue.add("send")
    await harness.redis.hset(harness.keys.of(job.id).job, "opts", '{"terms":{"timeout":"soon"}}')
    async with Worker("mail", lambda _: "done", harness.store):
        assert await queue.wait(job.id, timeout=LIMIT_S) == "done"


def test_their_errors_say_whether_another_attempt_helps() -> None:
    assert Expired.code == "EXPIRED"
    assert TimedOut.code != Expired.code
