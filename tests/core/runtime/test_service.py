"""A process under signals, and the watchdog over its loop."""

import asyncio
import subprocess
import sys
import textwrap
import time

import pytest

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


class HandEvent:
    """Lets time pass by hand, as much as each wait is to take; then nobody waits any more."""

    def __init__(self, waits: list[float]) -> None:
        self.now = 100.0
        self._waits = waits

    def wait(self, _: float) -> bool:
        if not self._waits:
            return True
        self.now += self._waits.pop(0)
        return False


@pytest.mark.parametrize(
    ("waits", "leaves"),
    [
        ([0.1] * 9, False),
        ([0.1] * 12, True),
        ([0.1, 3600.0, 0.1], False),
        ([1.6] * 50, False),
        ([3600.0, *[0.1] * 12], True),
    ],
)
def test_a_process_that_stood_still_as_a_whole_is_not_ended(
    waits: list[float], leaves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = HandEvent(waits)
    monkeypatch.setattr("waystation.core.runtime.service.time.monotonic", lambda: over.now)
    left: list[bool] = []
    watchdog = Watchdog(1.0, leave=lambda: left.append(True))
    monkeypatch.setattr(watchdog, "_over", over)
    watchdog._watch()  # pyright: ignore[reportPrivateUsage]
    assert left == [True] * leaves
