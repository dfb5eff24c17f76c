"""A process under signals, and the watchdog over its loop."""

import asyncio
import subprocess
import sys
import textwrap
import time

from tests.support.patience import LIMIT_S
from waystation.core.runtime.service import EXIT_CODE, Watchdog

PROGRAM = """
import asyncio, sys, time
from waystation.core.runtime.handlers import handler_of
from waystation.testing.memory import MemorySource
from waystation.core.runtime.service import serve
from waystation.core.runtime.worker import Worker, WorkerOptions

async def main():
    source = MemorySource()
    source.add("work")

    async def handle(work):
        print("begun", flush=True)
        {body}
        print("ended", flush=True)

    worker = Worker(source, handler_of(handle), WorkerOptions(grace={grace}))
    await serve([worker], watchdog_s={watchdog})
    print(source.entries["1"].state, flush=True)

asyncio.run(main())
"""


def start(body: str, *, grace: float = 30, watchdog: float = 60) -> subprocess.Popen[str]:
    program = textwrap.dedent(PROGRAM).format(body=body, grace=grace, watchdog=watchdog)
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    return process


def test_a_signal_lets_running_work_finish() -> None:
    process = start("await asyncio.sleep(0.5)")
    process.terminate()
    output, _ = process.communicate(timeout=LIMIT_S)

    assert output == "ended\ncompleted\n"
    assert process.returncode == 0


def test_work_that_outlasts_the_grace_is_handed_back() -> None:
    process = start("await asyncio.sleep(60)", grace=0.1)
    process.terminate()
    output, _ = process.communicate(timeout=LIMIT_S)

    assert output == "waiting\n"
    assert process.returncode == 0


def test_a_signal_that_a_wrapper_passes_on_again_counts_once() -> None:
    process = start("await asyncio.sleep(2)")
    process.terminate()
    process.terminate()
    output, _ = process.communicate(timeout=LIMIT_S)

    assert "ended" in output
    assert process.returncode == 0


def test_a_second_signal_ends_the_process_at_once() -> None:
    process = start("await asyncio.sleep(60)")
    process.terminate()
    time.sleep(1)  # two signals at once would be one
    process.terminate()
    output, _ = process.communicate(timeout=LIMIT_S)

    assert output == ""
    assert process.returncode == 1


def test_a_loop_that_stops_turning_ends_the_process() -> None:
    process = start("time.sleep(60)", watchdog=0.5)
    _, errors = process.communicate(timeout=LIMIT_S)

    assert "the event loop has not turned" in errors
    assert "in handle" in errors
    assert process.returncode == EXIT_CODE


async def test_a_turning_loop_is_left_alone() -> None:
    left: list[bool] = []
    async with Watchdog(LIMIT_S, leave=lambda: left.append(True)) as watchdog:
        await asyncio.sleep(0.6)
        assert watchdog.lag_s < LIMIT_S

    assert left == []
