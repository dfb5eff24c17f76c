"""The sandbox for plain tests: the same as for coroutines, without asyncio in the test."""

import asyncio
import base64
import re
from collections.abc import Iterator
from datetime import timedelta
from importlib.metadata import entry_points
from typing import Any

import pytest

from tests.support.project import ROOT
from waystation.bullmq import Job, PayloadOptions, SyncJob
from waystation.errors import InvalidOption, NoHandler, WrongState
from waystation.tasks import Tasks
from waystation.testing import Sandbox, SyncSandbox, sandbox

pytest_plugins = ["pytester"]

PAGE = ROOT / "docs/how-to/test-your-handlers.md"
KEYS = "k1=" + base64.b64encode(b"1" * 32).decode()


@pytest.fixture
def box(redis_url: str) -> Iterator[SyncSandbox]:
    with sandbox(redis_url) as opened:
        yield opened


def test_what_can_run_is_run_and_the_rest_waits_for_the_clock(box: SyncSandbox) -> None:
    def send(job: SyncJob) -> str:
        return f"sent to {job.data['to']}"

    async def remind(job: Job) -> str:
        await job.sleep(days=3)
        return "reminded"

    box.handle("mail", {"send": send, "remind": remind})
    box.fail("mail", "send", attempt=1)
    job = box.queue("mail").add("send", {"to": "ada"}, attempts=2, backoff=60)
    later = box.queue("mail").add("remind", {"to": "bob"}, delay=timedelta(days=1))
    box.run_all()
    assert (job.state(), later.state()) == ("delayed", "delayed")
    box.advance(minutes=1)
    box.run_all()
    job.refresh()
    assert (job.result, job.attempts_made) == ("sent to ada", 2)
    for _ in range(2):
        box.advance(days=2)
        box.run_all()
    assert [each.result for each in box.added("mail")] == ["sent to ada", None]
    box.advance(days=1)
    box.run_all()
    assert [each.result for each in box.added("mail", "remind")] == ["reminded"]


def test_what_was_added_is_asserted(box: SyncSandbox) -> None:
    box.queue("mail").add_many([("send", {"to": "ada", "copy": True}), ("send", {"to": "bob"})])
    (job,) = box.assert_added("mail", "send", {"to": "ada"}, count=1)
    assert job.data["copy"]
    with pytest.raises(AssertionError, match=r"wanted 1 jobs 'send' in 'mail', found 2 among"):
        box.assert_added("mail", "send", count=1)
    assert box.added("sms") == []


def test_a_queue_that_was_opened_before_its_handler_is_run_too(box: SyncSandbox) -> None:
    queue = box.queue("mail")
    queue.add("send", {"n": 1})
    box.handle("mail", lambda job: job.data["n"])
    box.run_all()
    assert [each.result for each in queue.get_jobs()] == [1]


def shop() -> Tasks:
    # Nobody listens there.
    tasks = Tasks("redis://127.0.0.1:1", prefix="shop", payloads=PayloadOptions(keys=KEYS))

    @tasks.task(queue="mail", retries=1)
    def send(to: str) -> str:
        return f"sent to {to}"

    @tasks.task(queue="orders")
    def order(customer: str) -> None:
        send.with_options(delay=timedelta(days=3)).sync.add(to=customer)

    return tasks


def test_tasks_run_and_add_here_wherever_their_store_is() -> None:
    tasks = shop()
    before = tasks.url
    with sandbox() as box:
        box.handle(tasks)
        order = next(each for each in tasks if each.name == "order")
        order.sync.add("ada")
        box.run_all()
        box.advance(days=3)
        box.run_all()
        (job,) = box.assert_added("mail", "send", {"to": "ada"}, count=1)
        assert job.result == "sent to ada"
    assert tasks.url == before
    assert tasks.layers == []


def test_sealed_payloads_are_read_as_they_are(box: SyncSandbox) -> None:
    payloads = PayloadOptions(keys=KEYS)
    box.handle("mail", lambda job: job.data["to"], payloads=payloads)
    box.queue("mail").add("send", {"to": "ada"})
    box.run_all()
    (job,) = box.assert_added("mail", "send", {"to": "ada"}, count=1)
    assert job.result == "ada"


def test_mistakes_are_refused_as_for_coroutines(box: SyncSandbox) -> None:
    wrong: Any = shop()
    with pytest.raises(InvalidOption, match=r"box\.handle\(tasks\)"):
        box.handle("mail", wrong)
    with pytest.raises(InvalidOption, match="the queue mail needs a handler"):
        box.handle("mail")  # pyright: ignore[reportCallIssue, reportArgumentType]


def test_to_run_nothing_while_jobs_wait_is_refused(box: SyncSandbox) -> None:
    box.queue("mail").add("send")
    with pytest.raises(NoHandler, match=r"jobs wait in 'mail' \(1\)"):
        box.run_all()


def test_it_is_closed_whatever_the_test_does(redis_url: str) -> None:
    with pytest.raises(ZeroDivisionError), sandbox(redis_url) as box:
        box.queue("mail").add("send", 1 / 0)
    with sandbox(redis_url) as again:
        again.queue("mail").add("send")


async def test_where_a_loop_runs_it_says_what_to_write() -> None:
    with pytest.raises(WrongState, match="async with sandbox"), sandbox():
        pass
    async with sandbox() as box:
        assert isinstance(box, Sandbox)
    await asyncio.to_thread(open_and_close)


def open_and_close() -> None:
    with sandbox() as box:
        assert isinstance(box, SyncSandbox)


def test_both_kinds_have_the_same_methods() -> None:
    internal = {"prefix", "payloads"}
    names = [{each for each in vars(kind) if each[0] != "_"} for kind in (Sandbox, SyncSandbox)]
    assert names[0] - internal == names[1]


def test_the_page_runs_and_so_does_the_fixture(pytester: pytest.Pytester) -> None:
    section = PAGE.read_text().partition("## Plain tests")[2]
    found = re.search(r"```python\n(.+?)```", section, re.DOTALL)
    assert found is not None
    pytester.makepyfile(
        test_page=found[1],
        test_fixture="""
        def test_one(waystation_sync_sandbox):
            box = waystation_sync_sandbox
            box.handle("mail", lambda job: "sent")
            box.queue("mail").add("send")
            box.run_all()
            assert [job.result for job in box.added("mail")] == ["sent"]

        def test_two(waystation_sync_sandbox):
            assert waystation_sync_sandbox.added("mail") == []
        """,
    )
    # Without any plugin that runs coroutines.
    options = ("-p", "no:anyio", "-p", "no:cacheprovider", "-p", "no:xdist")
    if not entry_points(group="pytest11", name="waystation"):
        options = ("-p", "waystation.testing.plugin", *options)
    pytester.runpytest_subprocess(*options).assert_outcomes(passed=3)
