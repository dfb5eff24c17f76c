"""Workers of the demo, each in a process of its own, so that they can be killed."""

import asyncio
import contextlib
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from waystation.core.runtime.service import until_asked_to_stop
from waystation.core.telemetry import logs


@contextlib.asynccontextmanager
async def at_work(scene: str, url: str) -> AsyncGenerator[Process]:
    """The worker of a scene's module, until the block ends."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", scene, url)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


def work(worker: Callable[[str], AbstractAsyncContextManager[Any]]) -> None:
    """Run a worker of the server named on the command line until asked to stop."""

    async def run() -> None:
        async with worker(sys.argv[1]):
            await until_asked_to_stop()

    # Jobs fail on purpose, by the hundred: the scene says what became of them.
    logs.configure(level="critical")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run())
