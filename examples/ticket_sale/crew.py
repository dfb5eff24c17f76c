"""Those who work behind the scenes, each in a process of their own, so that they can be killed."""

import asyncio
import contextlib
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator


@contextlib.asynccontextmanager
async def at_work(role: str, *arguments: str) -> AsyncGenerator[Process]:
    """Somebody who plays a role, such as `cashier`, until the scene is over."""
    program = (sys.executable, "-m", f"{__package__}.{role}", *arguments)
    process = await asyncio.create_subprocess_exec(*program)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
