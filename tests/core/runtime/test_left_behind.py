"""Functions in threads that nobody waits for any more: what comes after them still runs."""

import asyncio
import contextlib
import importlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.runtime import harness
from tests.support.patience import LIMIT_S, until
from waystation.core.errors import TimedOut
from waystation.core.runtime import slots as slots_module
from waystation.core.runtime import worker as worker_module
from waystation.core.runtime.handlers import handler_of
from waystation.core.runtime.worker import Worker, WorkerOptions
from waystation.testing.memory import MemorySource


class Hanging:
    """A plain handler that hangs over any work but "good", and knows what it has begun."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.release = threading.Event()

    def __call__(self, work: str) -> None:
        self.begun.append(work)
        if not work.startswith("good"):
            self.release.wait(LIMIT_S)


@contextlib.asynccontextmanager
async def working(
    source: MemorySource, handle: Hanging, **options: Any
) -> AsyncGenerator[Worker[Any]]:
    options = {"poll": 0.01, "renew": 0.01, "grace": 0, **options}
    async with harness.working(source, handle, **options) as worker:
        try:
            yield worker
        finally:
            handle.release.set()


async def play(kinds: list[str], concurrency: int) -> None:
    source, handle = MemorySource(), Hanging()
    async with working(source, handle, concurrency=concurrency, timeout=0.05) as worker:
        for number, kind in enumerate(kinds):
            id = source.add(f"{kind} {number}")
            await until(lambda at=number: len(handle.begun) > at)
            if kind == "cancelled":
                worker.cancel(id)
            elif kind == "lost":
                source.entries[id].token = "somebody else's"
        await until(
            lambda: all(
                entry.state in ("completed", "failed") or "lost" in entry.work
                for entry in source.entries.values()
            )
        )
    for entry in source.entries.values():
        assert entry.work in handle.begun
        assert entry.state == "completed" or not entry.work.startswith("good")
        assert not isinstance(entry.error, TimedOut) or entry.work.startswith("hangs")


@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    kinds=st.lists(st.sampled_from(["good", "hangs", "cancelled", "lost"]), min_size=2, max_size=6),
    concurrency=st.integers(1, 2),
)
def test_every_job_that_is_out_of_time_had_begun_and_the_next_one_runs(
    kinds: list[str], concurrency: int
) -> None:
    asyncio.run(play([*kinds, "good"], concurrency))


async def test_a_worker_whose_threads_all_hang_claims_no_more_until_one_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(slots_module, "_MOST_LEFT_BEHIND", 3)
    monkeypatch.setattr(worker_module, "_STUCK_FOR_S", 0.01)
    source, handle = MemorySource(), Hanging()
    for _ in range(5):
        source.add("hangs")
    async with working(source, handle, timeout=0.02):
        await until(lambda: "worker_stuck" in caplog.text)
        assert caplog.text.count("handler_left_behind") == 3
        source.add("good")
        await asyncio.sleep(0.1)
        assert len(handle.begun) == 3
        assert [each.state for each in source.entries.values()].count("waiting") == 3

        handle.release.set()
        await until(lambda: source.entries["6"].state == "completed")
    assert "worker_unstuck" in caplog.text


IMPORTS_SLOWLY = """
import time
time.sleep(1)
def handle(work):
    return work
"""


async def test_the_time_of_a_handler_does_not_begin_before_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imports_slowly.py").write_text(IMPORTS_SLOWLY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    handle = importlib.import_module("imports_slowly").handle

    source = MemorySource()
    source.add("work")
    worker = Worker(source, handler_of(handle, process=True), WorkerOptions(timeout=0.5))
    running = asyncio.create_task(worker.run())
    await until(lambda: source.entries["1"].state != "waiting")
    await until(lambda: source.entries["1"].state != "active")
    worker.stop()
    await running

    assert source.entries["1"].state == "completed", source.entries["1"].error


SERVES = """
import asyncio, sys, time
from waystation.core.runtime.handlers import handler_of
from waystation.core.runtime.service import serve
from waystation.core.runtime.worker import Worker, WorkerOptions
from waystation.testing.memory import MemorySource

def handle(work):
    print("begun", flush=True)
    time.sleep(0.5)
    return work

async def main():
    source = MemorySource()
    source.add("work")
    await serve([Worker(source, handler_of(handle, process=True), WorkerOptions())])
    print(source.entries["1"].state, repr(source.entries["1"].error))

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.mark.parametrize("asked_with", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_whole_group_gives_handlers_in_processes_their_grace(
    asked_with: signal.Signals, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(SERVES)
    with subprocess.Popen(
        [sys.executable, program], stdout=subprocess.PIPE, text=True, process_group=0
    ) as serving:
        assert serving.stdout is not None
        assert serving.stdout.readline() == "begun\n"
        # As honcho, supervisord with stopasgroup, or a terminal do it.
        os.killpg(serving.pid, asked_with)
        assert serving.communicate(timeout=LIMIT_S)[0] == "completed None\n"
