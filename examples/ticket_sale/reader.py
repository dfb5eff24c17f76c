"""One reader of letters, in a process of its own, so that it can be killed: `… reader URL`."""

import asyncio
import contextlib
import sys

from waystation import files
from waystation.core.runtime.service import until_asked_to_stop
from waystation.core.telemetry import logs

READ_S = 0.004

# Short heartbeats, so that the watching world need not wait long for a dead reader's letters.
OPTIONS = files.WorkerOptions(
    concurrency=8,
    lease=1.0,
    poll=0.1,
    backoff=0.05,
    reaper=files.ReaperOptions(interval=0.3),
)


@files.handler("**/*.letter")
async def read(job: files.Job) -> str:
    """Read one letter; it takes a moment."""
    await asyncio.sleep(READ_S)
    return await asyncio.to_thread(job.path.read_text)


async def main(url: str) -> None:
    """Read until asked to stop."""
    async with files.Worker(files.registered, url, options=OPTIONS):
        await until_asked_to_stop()


if __name__ == "__main__":
    # The show itself says what goes wrong in it.
    logs.configure(level="critical")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(*sys.argv[1:]))
