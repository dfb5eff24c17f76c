"""What a worker logs holds for every line: failures are seen without anybody asking."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from tests.laws.line import Line
from tests.support.patience import LIMIT_S
from waystation.core.runtime.handlers import handler_of
from waystation.core.runtime.worker import Worker, WorkerOptions


async def work_until(line: Line, handler: Callable[[Any], Any], ends: Callable[[], bool]) -> None:
    options = WorkerOptions(poll=0.01)
    worker = Worker(line.source(), handler_of(handler), options)
    running = asyncio.create_task(worker.run())
    async with asyncio.timeout(LIMIT_S):
        while not ends():
            await line.pass_time(1000)
            await asyncio.sleep(0.005)
    worker.stop()
    await running


def of(caplog: pytest.LogCaptureFixture, event: str) -> list[logging.LogRecord]:
    return [each for each in caplog.records if each.getMessage().split()[0] == event]


async def charge(work: Any) -> None:
    _ = {"name": "ada"}["email"]


def charge_in_a_thread(work: Any) -> None:
    _ = {"name": "ada"}["email"]


@pytest.mark.parametrize("handler", [charge, charge_in_a_thread])
async def test_a_failed_attempt_is_a_warning_and_the_last_one_an_error_with_its_traceback(
    line: Line, caplog: pytest.LogCaptureFixture, handler: Callable[[Any], Any]
) -> None:
    id = await line.add(attempts=2, backoff_ms=1)
    await work_until(line, handler, lambda: bool(of(caplog, "job_failed")))

    (retried,), (failed,) = of(caplog, "job_retried"), of(caplog, "job_failed")
    assert (retried.levelname, failed.levelname) == ("WARNING", "ERROR")
    for record, attempt in ((retried, 1), (failed, 2)):
        about = vars(record)
        assert (about["job_id"], about["attempt"]) == (id, attempt)
        assert (about["error_class"], about["error"]) == ("KeyError", "'email'")
        assert about["error_at"].startswith("test_logging.py:")
    assert failed.exc_info is not None
    kind, error, trace = failed.exc_info
    assert (kind, str(error)) == (KeyError, "'email'")
    assert trace is not None
    assert trace.tb_frame.f_code.co_name == handler.__name__


async def test_what_ended_well_is_not_worth_a_line(
    line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    done: list[Any] = []
    await line.add()
    await work_until(line, done.append, lambda: bool(done))
    names = [each.getMessage().split()[0] for each in caplog.records]
    # Whether the handler still counts as running when the worker is stopped is a matter of chance.
    by_chance = ("job_returned", "worker_stopping")
    assert [each for each in names if each not in by_chance] == ["worker_started", "worker_stopped"]


async def test_a_job_that_is_handed_back_is_mentioned(
    line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    id = await line.add()
    begun = asyncio.Event()

    async def hang(work: Any) -> None:
        begun.set()
        await asyncio.sleep(3600)

    options = WorkerOptions(poll=0.01, grace=0)
    worker = Worker(line.source(), handler_of(hang), options)
    running = asyncio.create_task(worker.run())
    await begun.wait()
    worker.stop()
    await running

    (returned,) = of(caplog, "job_returned")
    assert (returned.levelname, vars(returned)["job_id"]) == ("INFO", id)
    assert await line.state(id) == "waiting"


async def test_a_lost_lease_is_a_warning(line: Line, caplog: pytest.LogCaptureFixture) -> None:
    id = await line.add(attempts=3)
    begun = asyncio.Event()

    async def slow(work: Any) -> None:
        begun.set()
        await asyncio.sleep(3600)

    options = WorkerOptions(poll=0.01, renew=0.02)
    worker = Worker(line.source(), handler_of(slow), options)
    running = asyncio.create_task(worker.run())
    await begun.wait()
    worker.pause()
    async with asyncio.timeout(LIMIT_S):
        while not of(caplog, "lease_lost"):
            # Again, because a renewal may come between the two halves of it.
            await line.lapse_leases()
            await asyncio.sleep(0.05)
    worker.stop()
    await running
    lost = of(caplog, "lease_lost")[0]
    assert (lost.levelname, vars(lost)["job_id"]) == ("WARNING", id)
