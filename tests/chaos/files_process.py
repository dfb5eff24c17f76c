"""A worker of files in a process of its own, which may be told where to die.

Run as `python -m tests.chaos.files_process URL LEDGER STEP`; every file worked on is a line in
the ledger, written before the handler returns, and every refused outcome one that says so.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from waystation.core.line.background import WorkerRuntime
from waystation.core.runtime.claim import Refused
from waystation.core.store.connection import Store
from waystation.files.claims import FileSource
from waystation.files.handlers import Handlers
from waystation.files.job import Job
from waystation.files.options import ReaperOptions, WorkerOptions
from waystation.files.worker import Worker

STEPS = ("before fetch", "after fetch", "mid handler", "after side effect", "completion sent")
HEARTBEAT_S = 1.0

SLOW_HEARTBEAT_S = 3.0
"""For work that must not be taken away, however busy the machine is."""


def _options(step: str) -> WorkerOptions:
    heartbeat_s = SLOW_HEARTBEAT_S if step in ("blocked", "watching") else HEARTBEAT_S
    return WorkerOptions(
        concurrency=4,
        lease=heartbeat_s,
        poll=0.05,
        backoff=0.01,
        max_retries=1000,
        reaper=ReaperOptions(interval=0.2),
        breaker=None,
    )


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Mortal:
    """A client that ends the process before or after a fetch, or once an outcome is sent."""

    def __init__(self, client: Any, step: str) -> None:
        self._client = client
        self._step = step

    async def execute_command(self, *args: Any) -> Any:
        outcome = "completed" in args
        is_fetch = args[0] in ("EVALSHA", "EVAL") and any(
            isinstance(arg, str) and "," in arg and ";" in arg for arg in args[2:]
        )
        if self._step == "before fetch" and is_fetch:
            die()
        if self._step == "frozen" and outcome:
            os.kill(os.getpid(), signal.SIGSTOP)
        if self._step == "completion sent" and outcome:
            asyncio.get_running_loop().call_later(0.05, die)
            await self._client.execute_command(*args)
            await asyncio.sleep(10)
        answer = await self._client.execute_command(*args)
        if self._step == "after fetch" and is_fetch and any(answer[1]):
            die()
        return answer


def _handlers(ledger: Path, step: str) -> Handlers:
    handlers = Handlers()

    if step == "blocked":

        @handlers.handler("**/*")
        def read(job: Job) -> None:
            _note(ledger, f"begun {job.id}")
            _note(ledger, job.path.read_text())

    @handlers.handler("**/*")
    async def work(job: Job) -> None:
        if step == "mid handler":
            die()
        if step == "slow":
            await asyncio.sleep(0.02)
        await asyncio.to_thread(_note, ledger, job.filepath)
        if step == "after side effect":
            die()

    return handlers


def _note(ledger: Path, text: str) -> None:
    with ledger.open("a") as file:
        file.write(f"{text}\n")


class MortalWorker(Worker):
    """A worker that dies where it is told to, and notes what was refused."""

    def __init__(self, url: str, ledger: Path, step: str) -> None:
        super().__init__(_handlers(ledger, step), url, options=_options(step))
        self._ledger = ledger
        self._step = step

    def _runtime_at(self, store: Store) -> WorkerRuntime[Job]:
        shift = super()._runtime_at(store)
        assert isinstance(shift.presence, FileSource)
        shift.presence._client = Mortal(store.hot, self._step)  # pyright: ignore[reportPrivateUsage]
        listener = shift.worker._listener  # pyright: ignore[reportPrivateUsage]
        assert listener

        def refused(these: Sequence[Refused[Job]]) -> None:
            for each in these:
                _note(self._ledger, f"refused {each.claim.id}")

        listener.refused = refused  # type: ignore[method-assign]
        return shift


async def main(url: str, ledger: Path, step: str) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with MortalWorker(url, ledger, step):
        _note(ledger, "ready")
        await ended.wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
