"""Jobs on the wire of Node's BullMQ.

A queue holds jobs until a worker has done them. What is kept in Redis is what BullMQ keeps there,
so whatever is shown here in Python works as well when the other side is written in Node. Here
`redis_url` is the address of a server; whoever leaves it out gets the one that
`WAYSTATION_STORE__URL` names, else a server of this directory's own.
"""

import asyncio
from typing import Any

import pytest

from waystation import sync
from waystation.bullmq import (
    Backoff,
    Deduplication,
    FlowNode,
    FlowProducer,
    Job,
    JobFailed,
    JobOptions,
    ManualWorker,
    Queue,
    QueueEvents,
    Schedule,
    SyncJob,
    Unrecoverable,
    Worker,
    open_store,
)


async def test_a_job_that_is_added_is_done_by_a_worker(redis_url: str) -> None:
    """A job has a name and data, which is any JSON value. A handler takes the job, and what it
    returns is kept with it. Leaving the worker lets it finish what it has begun."""

    async def send(job: Job) -> str:
        return f"sent to {job.data['to']}"

    async with Queue("mail", redis_url) as queue, Worker("mail", send, redis_url):
        job = await queue.add("send", {"to": "ada@example.org"})
        assert await job.wait() == "sent to ada@example.org"


async def test_a_step_is_done_once_however_often_the_job_is_tried(redis_url: str) -> None:
    """What a step returned is stored with the job. When the handler runs again, after a failure or
    a crash, the step returns that without being done. A job that waits for a signal, or sleeps,
    holds no worker meanwhile."""
    charged: list[int] = []

    def charge(amount: int) -> str:
        charged.append(amount)
        return f"receipt {len(charged)}"

    async def order(job: Job) -> list[str]:
        receipt = await job.step("charge", charge, job.data["amount"])
        approval = await job.wait_for("approved")
        if job.attempt == 1:
            raise ConnectionError("the parcel service is away")
        return [receipt, approval["by"]]

    async with Queue("orders", redis_url) as queue, Worker("orders", order, redis_url):
        job = await queue.add("order", {"amount": 7}, attempts=2, backoff=None)
        await queue.signal(job.id, "approved", {"by": "ada"})
        assert await queue.wait(job.id) == ["receipt 1", "ada"]
    assert charged == [7]


async def test_a_worker_may_have_a_handler_for_each_name(redis_url: str) -> None:
    """Write `async def` for work that waits, as many at once as `concurrency` says. Plain `def`
    runs in a thread, or with `process=True` in a process, for work that keeps the processor busy.
    """

    async def send(job: Job) -> str:
        return "sent"

    def render(job: SyncJob) -> str:
        return "rendered"

    handlers = {"send": send, "render": render}
    async with (
        Queue("mail", redis_url) as queue,
        Worker("mail", handlers, redis_url, concurrency=10),
    ):
        jobs = await queue.add_many([("send", {}), ("render", {"page": 1})])
        assert [await job.wait() for job in jobs] == ["sent", "rendered"]


async def test_a_plain_function_can_do_with_its_job_what_a_coroutine_can(redis_url: str) -> None:
    """A plain `def` handler gets a `SyncJob`, in a thread as in a process: the same steps as a
    `Job`, without `await`. A call returns when the store has answered. A thread cannot be stopped
    from outside, so one that takes long looks at `job.cancelled`: it is true once the job was
    cancelled, its lock was lost, its time is up, or the worker has closed."""

    def render(job: SyncJob) -> str:
        pages = job.data["pages"]
        for page in range(1, pages + 1):
            if job.cancelled:
                break
            job.update_progress(100 * page // pages)
            job.log(f"page {page}")
        return "rendered"

    async with Queue("books", redis_url) as queue, Worker("books", render, redis_url):
        job = await queue.add("render", {"pages": 3})
        assert await job.wait() == "rendered"

        await job.refresh()
        assert job.progress == 100
        assert (await job.logs()).lines == ["page 1", "page 2", "page 3"]


async def test_a_job_that_fails_is_tried_again(redis_url: str) -> None:
    """Whatever the handler raises is a failed attempt. By default a job has three, with
    a pause of one second that doubles. The job remembers why."""
    answers = iter([TimeoutError("the server does not answer"), None])

    def send(job: SyncJob) -> str:
        if trouble := next(answers):
            raise trouble
        return "sent"

    async with Queue("mail", redis_url) as queue, Worker("mail", send, redis_url):
        job = await queue.add("send", attempts=5, backoff=Backoff.exponential(0.01, jitter=0.5))
        assert await job.wait() == "sent"

        await job.refresh()
        assert job.attempts_made == 2
        assert job.failed_reason == "the server does not answer"


async def test_a_job_that_cannot_succeed_fails_at_once(redis_url: str) -> None:
    """`Unrecoverable` ends the matter at the first attempt. A failed job stays, with its
    reason and its tracebacks, and can be retried."""

    def send(job: SyncJob) -> str:
        raise Unrecoverable("no such address")

    async with Queue("mail", redis_url) as queue:
        async with Worker("mail", send, redis_url):
            job = await queue.add("send", attempts=5)
            with pytest.raises(JobFailed, match="no such address"):
                await job.wait()

        [failed] = await queue.get_jobs("failed")
        assert failed.attempts_made == 1
        assert "Unrecoverable: no such address" in failed.stacktrace[0]

        await failed.retry()
        assert await failed.state() == "waiting"


async def test_a_job_can_wait_for_its_time(redis_url: str) -> None:
    """Durations are seconds or a `timedelta`. A delay can be changed while it lasts, and ended."""
    async with Queue("mail", redis_url) as queue:
        reminder = await queue.add("remind", delay=60)
        assert await reminder.state() == "delayed"

        await reminder.change_delay(3600)
        await reminder.promote()
        assert await reminder.state() == "waiting"


async def test_what_matters_more_goes_first(redis_url: str) -> None:
    """Jobs without a priority come first, then those of priority 1, 2, and so on; within each the
    oldest."""
    order: list[str] = []

    async def send(job: Job) -> None:
        order.append(job.name)

    async with Queue("mail", redis_url) as queue:
        jobs = [
            await queue.add("newsletter", priority=10),
            await queue.add("receipt", priority=1),
            await queue.add("password"),
        ]
        async with Worker("mail", send, redis_url):
            for job in jobs:
                await job.wait()

    assert order == ["password", "receipt", "newsletter"]


async def test_one_job_can_stand_for_many(redis_url: str) -> None:
    """While a job with this deduplication id has not finished, adding another gives back the first
    one. With `ttl` that holds for a time instead, and `replace` lets the last one win."""
    async with Queue("search", redis_url) as queue:
        once = Deduplication("book-17")
        first = await queue.add("index", {"book": 17}, deduplication=once)
        again = await queue.add("index", {"book": 17}, deduplication=once)

        assert again.id == first.id
        assert await queue.count() == 1


async def test_a_job_can_wait_for_others(redis_url: str) -> None:
    """A flow is added all or nothing. A parent runs when its children are done, whatever queues
    they are in, and reads what they returned."""

    async def draw(job: Job) -> int:
        return job.data["page"]

    async def bind(job: Job) -> list[int]:
        pages: dict[str, Any] = await job.children_values()
        return sorted(pages.values())

    book = FlowNode(
        name="bind",
        queue="books",
        children=[FlowNode(name="draw", queue="pages", data={"page": n}) for n in (1, 2, 3)],
    )
    async with (
        FlowProducer(redis_url) as flows,
        Worker("pages", draw, redis_url, concurrency=3),
        Worker("books", bind, redis_url),
    ):
        added = await flows.add(book)
        assert await added.job.wait() == [1, 2, 3]


async def test_jobs_can_come_again_and_again(redis_url: str) -> None:
    """A scheduler makes its next job when the last one is picked up. `upsert` with the same
    schedule changes nothing, so every process may call it when it starts."""
    async with Queue("reports", redis_url) as queue:
        nightly = Schedule(pattern="30 2 * * *", tz="Europe/Vienna")
        await queue.schedulers.upsert("nightly", nightly, name="report")
        await queue.schedulers.upsert("nightly", nightly, name="report")

        [scheduler] = await queue.schedulers.list()
        assert scheduler.pattern == "30 2 * * *"
        assert (await queue.counts("delayed"))["delayed"] == 1


async def test_a_worker_says_what_becomes_of_its_jobs(redis_url: str) -> None:
    """`on` calls a function back when something happens at this worker: `completed` and `failed`
    come when the store has accepted the outcome, with the job as it is then. A coroutine is awaited
    in order, while the worker goes on. What a listener raises is logged and passed to the listeners
    of `error`. The others are `active`, `progress`, `stalled`, `refused`, `lost`, `drained`,
    `ready`, `paused`, `resumed`, `closing` and `closed`."""
    alarms: list[str] = []

    async def send(job: Job) -> None:
        raise ConnectionError("nobody answers")

    async def alarm(job: Job, error: BaseException) -> None:
        if job.attempts_made >= job.options.attempts:
            alarms.append(f"{job.name}: {job.failed_reason}")

    worker = Worker("mail", send, redis_url)
    worker.on("failed", alarm)
    async with Queue("mail", redis_url) as queue, worker:
        job = await queue.add("send", attempts=2, backoff=Backoff.fixed(0.01))
        with pytest.raises(JobFailed):
            await job.wait()

    assert len(alarms) == 1
    assert "nobody answers" in alarms[0]


async def test_everything_that_happens_is_an_event(redis_url: str) -> None:
    """Events come from all workers of the queue, whatever they are written in. Each has an id, from
    which one can go on listening later."""
    names: list[str] = []

    async def send(job: Job) -> str:
        await job.update_progress(50)
        return "sent"

    async with QueueEvents("mail", redis_url) as events, Queue("mail", redis_url) as queue:
        await queue.add("send")
        async with Worker("mail", send, redis_url):
            async for event in events:
                names.append(event.name)
                if event.name == "completed":
                    assert event.result == "sent"
                    break

    assert names == ["added", "waiting", "active", "progress", "completed"]


async def test_a_handler_can_take_many_jobs_at_once(redis_url: str) -> None:
    """With `batch` a handler takes a list, of what waits and never more than so many. It returns a
    list, too: a value for each job that is done, an exception for each that has failed."""

    async def send(jobs: list[Job]) -> list[Any]:
        return [f"sent to {job.data}" if job.data else ValueError("no address") for job in jobs]

    once = JobOptions(attempts=1)
    async with Queue("mail", redis_url) as queue:
        jobs = await queue.add_many([("send", to, once) for to in ("ada", "", "grace")])
        async with Worker("mail", send, redis_url, batch=100):
            ends = [job.wait() for job in jobs]
            ada, nobody, grace = await asyncio.gather(*ends, return_exceptions=True)

    assert (ada, grace) == ("sent to ada", "sent to grace")
    assert isinstance(nobody, JobFailed)


async def test_jobs_can_be_taken_by_hand(redis_url: str) -> None:
    """Code that has a loop of its own takes jobs one by one and says what became of each. Their
    locks are renewed in the meantime, and what was not ended goes back when the worker closes."""
    async with Queue("mail", redis_url) as queue, ManualWorker("mail", redis_url) as worker:
        await queue.add("send", {"to": "ada@example.org"})
        job = await worker.get_next_job(wait=5)
        assert job is not None
        await worker.complete(job, "sent")
        assert await worker.get_next_job() is None


async def test_many_queues_can_share_one_store(redis_url: str) -> None:
    """A queue with a URL has connections of its own. Whoever has many, such as one for each tenant,
    opens a store and hands it to all of them: a thousand queues then take a handful of
    connections, and each worker two more. Whoever opens the store closes it."""
    async with await open_store(redis_url) as store:
        queues = [Queue(f"tenant-{n}", store) for n in range(1000)]
        for queue in queues[:3]:
            await queue.add("send", {"to": "ada@example.org"})

        async with Worker("tenant-0", lambda job: "sent", store):
            [job] = await queues[0].get_jobs()
            assert await job.wait() == "sent"


def test_code_that_is_not_async_adds_jobs_too(redis_url: str) -> None:
    """A site in Django or Flask, or a script, takes the same classes from `waystation.sync`,
    without `await`. One queue serves all threads of a process, and a process that is forked
    later."""
    with sync.Queue("mail", redis_url) as queue:
        job = queue.add("send", {"to": "ada@example.org"})
        assert queue.state(job.id) == "waiting"
