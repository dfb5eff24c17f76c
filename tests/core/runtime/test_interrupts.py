"""A Ctrl-C stops the process; a KeyboardInterrupt that a handler raises fails its job."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.support.patience import LIMIT_S
from waystation.core.runtime.tasks import is_from_a_signal

PROGRAM = """
import asyncio, signal
from waystation.core.runtime.handlers import handler_of
from waystation.testing.memory import MemorySource
from waystation.core.runtime.worker import Worker, WorkerOptions

async def compute(work):
    print("begun", flush=True)
    while True:
        pass

source = MemorySource()
source.add("work")
loop = asyncio.new_event_loop()
worker = Worker(source, handler_of(compute), WorkerOptions())
{run}
"""

WAYS = {
    "a bare loop": "loop.run_until_complete(worker.run())",
    "a runner": "asyncio.run(worker.run())",
}


@pytest.mark.parametrize("run", WAYS.values(), ids=WAYS)
def test_a_ctrl_c_ends_the_process_while_a_handler_computes(run: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(run=run)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stdout.readline() == "begun\n"
    for _ in range(2):  # asyncio's runner asks politely at first
        process.send_signal(signal.SIGINT)
        try:
            _, errors = process.communicate(timeout=1)
            break
        except subprocess.TimeoutExpired:
            continue
    else:
        _, errors = process.communicate(timeout=LIMIT_S)

    assert process.returncode in (1, 130, -signal.SIGINT)
    assert "KeyboardInterrupt" in errors


def caught(function: Callable[[], object]) -> KeyboardInterrupt:
    try:
        function()
    except KeyboardInterrupt as error:
        return error
    pytest.fail("nothing was raised")


def raising() -> None:
    raise KeyboardInterrupt


def interrupted() -> None:
    signal.raise_signal(signal.SIGINT)
    asyncio.sleep(0).close()  # the interpreter looks for signals between two instructions


def test_what_a_signal_raises_is_told_from_what_code_raises() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert is_from_a_signal(caught(interrupted))
        assert not is_from_a_signal(caught(raising))
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_a_handler_of_signals_raises_is_told_from_what_code_raises() -> None:
    def on_signal(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, on_signal)
    try:
        assert is_from_a_signal(caught(interrupted))
        assert not is_from_a_signal(caught(raising))
    finally:
        signal.signal(signal.SIGINT, before)
