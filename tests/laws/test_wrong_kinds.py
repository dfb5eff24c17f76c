"""What is of the wrong kind is refused where it is given, in a sentence that helps."""

from collections.abc import Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from waystation import bullmq, files, routing
from waystation.core.errors import InvalidInput
from waystation.core.runtime.worker import WorkerOptions

URL = "redis://127.0.0.1:1"
OTHER: Any = {"id": "a"}
TEXT: Any = "gpu"
ABSENT: Any = None


def work(job: Any) -> None:
    pass


def nested() -> Callable[[Any], None]:
    def inner(job: Any) -> None: ...

    return inner


def bull_worker(handler: Any = work, **options: Any) -> bullmq.Worker:
    return bullmq.Worker("mail", handler, URL, **options)


def routing_worker(handlers: Any = None, **options: Any) -> routing.Worker:
    return routing.Worker(handlers or {"mail": work}, URL, **options)


MISTAKES: list[tuple[Callable[[], Any], str]] = [
    (lambda: bullmq.Queue("mail", OTHER), "a store is given by its URL, or as a Store, got {'id'"),
    (lambda: routing.Queue(OTHER), "a store is given by its URL"),
    (lambda: bullmq.Queue("mail", URL, size_limit=TEXT), "size_limit must be a whole number"),
    (lambda: bullmq.JobOptions(deduplication=OTHER), "deduplication must be a Deduplication, got"),
    (
        lambda: bullmq.JobOptions(deduplication=TEXT),
        "deduplication must be a Deduplication, got 'g",
    ),
    (lambda: bullmq.JobOptions(parent=TEXT), "parent must be a Parent"),
    (lambda: bullmq.JobOptions(job_id=OTHER), "job_id must be text"),
    (lambda: bullmq.JobOptions(lifo=TEXT), "lifo must be True or False"),
    (lambda: bullmq.JobOptions(backoff=TEXT), "backoff, when it is not a Backoff, must be a"),
    (lambda: bullmq.JobOptions(remove_on_fail=TEXT), "must be True, False, a number or a Keep"),
    (lambda: bullmq.Keep(age=TEXT), "age of what is kept must be a"),
    (lambda: bullmq.Deduplication(OTHER), "id must be text, got {'id'"),
    (
        lambda: bullmq.Schedule(every=9, start_date=TEXT),
        "must be a datetime or None, got",
    ),
    (lambda: bullmq.Worker("mail", OTHER["id"], URL), "a handler must be a function, got 'a'"),
    (lambda: bull_worker({}), "a handler for at least one name"),
    (lambda: bull_worker(nested(), process=True), "must be a function of a module"),
    (lambda: bull_worker(lambda: None), "the handler <lambda> must take one argument, the job"),
    (lambda: bull_worker(concurrency="5"), "concurrency must be a whole number"),
    (lambda: bull_worker(concurrency=1.5), "concurrency must be a whole number, got 1.5"),
    (lambda: bull_worker(poll=0), "poll must be more than 0 seconds, got 0"),
    (lambda: bull_worker(timeout="1s"), "timeout must be a timedelta or seconds"),
    (lambda: bull_worker(limiter={"max": 1}), "limiter must be a Limit"),
    (lambda: bull_worker(name="my worker"), "name must be text without spaces"),
    (lambda: bull_worker(remove_on_complete=TEXT), "remove_on_complete must be True"),
    (lambda: bull_worker().on(TEXT, print), "event must be one of active, completed, "),
    (
        lambda: routing.Target(capabilities=TEXT),
        "capabilities must be a list, each text",
    ),
    (lambda: routing.Retry(skip_on=TEXT), "skip_on must be a list, each text, got 'gpu'"),
    (lambda: routing.Schedule(run_at=TEXT), "run_at must be a datetime"),
    (lambda: routing.Limit(max_concurrent=TEXT), "max_concurrent must be a whole number"),
    (lambda: routing.JobOptions(target=OTHER), "target must be a Target"),
    (lambda: routing.JobOptions(retry=OTHER), "retry must be a Retry"),
    (lambda: routing.JobOptions(priority=TEXT), "priority must be a whole number, got 'gpu'"),
    (lambda: routing.JobOptions(job_id=OTHER), "job_id must be text"),
    (lambda: routing.JobOptions(priority=ABSENT), "priority must be a whole number, got None"),
    (lambda: routing.JobOptions(priority=True), "priority must be a whole number, got True"),
    (lambda: routing.JobOptions(target=ABSENT), "target must be a Target, got None"),
    (lambda: routing.JobOptions(schedule=ABSENT), "schedule must be a Schedule, got None"),
    (lambda: routing.JobOptions(retry=ABSENT), "retry must be a Retry, got None"),
    (lambda: routing.Schedule(cron=OTHER), "cron must be text or None, got {'id'"),
    (lambda: routing.Schedule(delay=float("inf")), "delay must be finite, got inf"),
    (lambda: bullmq.JobOptions(delay=float("inf")), "delay must be finite, got inf"),
    (lambda: routing_worker(TEXT), "handlers by type must be a Mapping"),
    (lambda: routing_worker({"mail": None}), "a handler must be a function, got None"),
    (lambda: routing_worker(region=["eu"]), "region must be text"),
    (lambda: routing_worker(capabilities=[1]), "capabilities must be a list, each text, got [1]"),
    (lambda: routing_worker(options=OTHER), "options must be a WorkerOptions"),
    (lambda: files.handler(OTHER), "a pattern must be text"),
    (lambda: files.Worker(OTHER, URL), "handlers must be a Handlers"),
    (lambda: files.Worker(files.Handlers(), URL), "such as @files.handler('**/*'), got none"),
    (lambda: WorkerOptions(calls=TEXT), "calls must be a whole number"),
]


@pytest.mark.parametrize(("make", "sentence"), MISTAKES, ids=[text for _, text in MISTAKES])
def test_it_is_refused_before_anything_is_sent(make: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        make()
    assert sentence in str(refused.value)


async def test_a_client_of_redis_is_not_a_store() -> None:
    """The directory's own server must not be taken for the one that somebody meant."""
    client: Any = Redis(port=1)
    with pytest.raises(InvalidInput, match="a store is given by its URL"):
        bullmq.Queue("mail", client)


async def test_a_job_of_many_is_a_tuple(redis_url: str) -> None:
    row: Any = {"name": "send", "data": {}}
    async with bullmq.Queue("mail", redis_url) as queue:
        with pytest.raises(InvalidInput, match="a job to add is a name, its data and perhaps opti"):
            await queue.add_many([row])
        with pytest.raises(InvalidInput, match="options must be a JobOptions, got 'opts'"):
            await queue.add_many([row | {"opts": {}}])
        assert await queue.count() == 0


async def test_calls_tell_what_they_want(redis_url: str) -> None:
    async with bullmq.Queue("mail", redis_url) as queue, routing.Queue(redis_url) as line:
        job = await queue.add("send")
        calls: list[tuple[Callable[[], Any], str]] = [
            (lambda: queue.schedulers.upsert("s", OTHER), "schedule must be a Schedule"),
            (lambda: queue.counts(OTHER), "states must be text"),
            (lambda: job.wait(timeout=-1), "timeout must be a timedelta or seconds"),
            (lambda: line.add(OTHER), "type must be text"),
            (lambda: line.add("mail", {}, OTHER), "options must be a JobOptions"),
            (lambda: line.add_many([OTHER]), "each of many jobs must be a NewJob"),
            (lambda: line.limits.set("mail", OTHER), "limit must be a Limit"),
        ]
        for call, sentence in calls:
            with pytest.raises(InvalidInput, match=sentence):
                await call()
