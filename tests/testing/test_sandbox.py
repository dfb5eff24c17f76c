"""The sandbox: queues, workers and a clock that a test of handlers turns."""

import asyncio
import time
from datetime import timedelta
from importlib.metadata import entry_points
from typing import Any

import pytest

from waystation.bullmq import Job, Queue, SyncJob, TimedOut
from waystation.errors import InvalidOption, NoHandler
from waystation.tasks import Tasks, depends
from waystation.testing import Sandbox, sandbox

pytest_plugins = ["pytester"]


@pytest.fixture
async def box(redis_url: str) -> Any:
    async with sandbox(redis_url) as opened:
        yield opened


async def test_it_runs_what_can_run_and_nothing_else(box: Sandbox) -> None:
    box.handle("mail", lambda job: f"sent to {job.data['to']}")
    now = await box.queue("mail").add("send", {"to": "ada"})
    later = await box.queue("mail").add("send", {"to": "bob"}, delay=3600)
    await box.run_all()
    assert await box.queue("mail").state(now.id) == "completed"
    assert await box.queue("mail").state(later.id) == "delayed"

    await box.advance(hours=1)
    await box.run_all()
    assert (await box.added("mail"))[1].result == "sent to bob"


async def test_jobs_that_a_handler_adds_are_run_and_can_be_asserted(box: Sandbox) -> None:
    async def order(job: Job) -> None:
        async with Queue("mail", box.url) as queue:
            await queue.add("thank", {"to": job.data["customer"], "lang": "en"})

    box.handle("orders", order)
    box.handle("mail", {"thank": lambda job: "sent"})
    await box.queue("orders").add("order", {"customer": "ada"})
    await box.run_all()
    (job,) = await box.assert_added("mail", "thank", {"to": "ada"}, count=1)
    assert job.result == "sent"
    with pytest.raises(AssertionError, match=r"wanted a job 'thank' with {'to': 'bob'} in"):
        await box.assert_added("mail", "thank", {"to": "bob"})
    with pytest.raises(AssertionError, match="wanted 2 jobs 'thank' in 'mail', found 1"):
        await box.assert_added("mail", "thank", count=2)


async def test_an_attempt_fails_when_the_test_asks_for_it(box: Sandbox) -> None:
    ran: list[int] = []

    def send(job: SyncJob) -> None:
        ran.append(job.attempt)

    async def bill(job: Job) -> None:
        ran.append(10 * job.attempt)

    box.handle("mail", {"send": send, "bill": bill})
    box.fail("mail", "send", attempt=1)
    box.fail("mail", "send", attempt=2, error=LookupError("no such address"))
    box.fail("mail", "bill")
    job = await box.queue("mail").add("send", attempts=3, backoff=60)
    await box.queue("mail").add("bill", attempts=3, backoff=60)
    for _ in range(3):
        await box.run_all()
        await box.advance(minutes=1)
    assert sorted(ran) == [3, 20]
    await job.refresh()
    assert job.failed_reason == "no such address"


async def test_a_sleeping_job_is_woken_by_turning_the_clock(box: Sandbox) -> None:
    async def order(job: Job) -> str:
        await job.sleep(days=3)
        try:
            await job.wait_for("approved", timeout=3600)
        except TimedOut:
            return "nobody answered"
        return "approved"

    box.handle("orders", order)
    began = time.monotonic()
    await box.queue("orders").add("order")
    for turn in ({"days": 2}, {"days": 1}, {"minutes": 30}, {"minutes": 31}):
        await box.run_all()
        assert (await box.added("orders"))[0].result is None
        await box.advance(**turn)
    await box.run_all()
    assert (await box.added("orders"))[0].result == "nobody answered"
    assert time.monotonic() - began < 3600


def shop() -> Tasks:
    # Nobody listens there.
    tasks = Tasks("redis://127.0.0.1:1", prefix="shop")

    def mailer() -> list[str]:
        return []

    @tasks.task(queue="mail", retries=2)
    def send(to: str, sent: list[str] = depends(mailer)) -> list[str]:
        sent.append(to)
        return sent

    @tasks.task(queue="orders")
    async def order(customer: str) -> None:
        await send.with_options(delay=timedelta(days=3)).add(to=customer)
        await asyncio.to_thread(send.sync.add, to="boss")

    return tasks


async def test_tasks_run_and_add_in_the_sandbox_wherever_their_store_is(box: Sandbox) -> None:
    tasks = shop()
    before = tasks.url
    async with sandbox(box.url) as inner:
        inner.handle(tasks)
        order = next(each for each in tasks if each.name == "order")
        await order.add("ada")
        await inner.run_all()
        (job,) = await inner.assert_added("mail", "send", {"to": "boss"}, count=1)
        assert job.result == ["boss"]
        await inner.advance(days=3)
        await inner.run_all()
        (job,) = await inner.assert_added("mail", "send", {"to": "ada"}, count=1)
        assert job.result == ["ada"]
    assert tasks.url == before
    assert tasks.layers == []


async def test_an_attempt_of_a_task_fails_when_the_test_asks_for_it(box: Sandbox) -> None:
    tasks = shop()
    box.handle(tasks)
    box.fail("mail", "send", attempt=1, error=LookupError("no such address"))
    send = next(each for each in tasks if each.name == "send")
    added = await send.add(to="ada")
    for _ in range(2):
        await box.run_all()
        await box.advance(minutes=1)
    (job,) = await box.added("mail")
    assert (job.id, job.attempts_made, job.result) == (added.id, 2, ["ada"])


async def test_tasks_and_handlers_are_told_apart(box: Sandbox) -> None:
    tasks: Any = shop()
    for wrong in (tasks, next(iter(tasks)), {"send": next(iter(tasks))}):
        with pytest.raises(InvalidOption, match=r"box\.handle\(tasks\)"):
            box.handle("mail", wrong)
    with pytest.raises(InvalidOption, match="the queue mail needs a handler"):
        box.handle("mail")  # pyright: ignore[reportCallIssue, reportArgumentType]


async def test_to_run_nothing_while_jobs_wait_is_refused(box: Sandbox) -> None:
    await box.run_all()  # there is nothing to run
    async with Queue("mail", box.url) as queue:
        await queue.add_many([("send", {}), ("send", {})])
    with pytest.raises(
        NoHandler, match=r"jobs wait in 'mail' \(2\), but queues with a handler are: none"
    ):
        await box.run_all()
    box.handle("mial", lambda job: "sent")
    box.queue("mail")
    with pytest.raises(NoHandler, match=r"are: 'mial'; write box\.handle\('mail', handler\)"):
        await box.run_all()


async def test_a_queue_that_is_only_looked_at_needs_no_handler(box: Sandbox) -> None:
    async def order(job: Job) -> None:
        await box.queue("mail").add("thank")

    box.handle("orders", order)
    await box.queue("orders").add("order")
    for _ in range(2):
        await box.run_all()
    await box.assert_added("mail", "thank", count=1)


async def test_what_does_not_end_in_time_is_named(box: Sandbox) -> None:
    async def endless(job: Job) -> None:
        await box.queue("mail").add("send")

    box.handle("mail", endless)
    await box.queue("mail").add("send")
    with pytest.raises(TimeoutError, match=r"after 0\.2 s jobs still run or wait: 'mail' \("):
        await box.run_all(timeout=0.2)


async def test_without_a_url_it_has_a_server_of_its_own() -> None:
    async with sandbox() as first, sandbox() as second:
        await first.queue("mail").add("send")
        assert await second.added("mail") == []
        assert len(await first.added("mail")) == 1


def test_pytest_offers_its_fixtures(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nanyio_mode = auto\n")
    pytester.makepyfile(
        """
        async def test_one(waystation_sandbox):
            box = waystation_sandbox
            box.handle("mail", lambda job: "sent")
            await box.queue("mail").add("send")
            await box.run_all()
            assert [job.result for job in await box.added("mail")] == ["sent"]

        async def test_two(waystation_sandbox):
            assert await waystation_sandbox.added("mail") == []
        """
    )
    options = ("-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:xdist")
    if not entry_points(group="pytest11", name="waystation"):
        options = ("-p", "waystation.testing.plugin", *options)
    pytester.runpytest_subprocess(*options).assert_outcomes(passed=2)
