"""A program that moves an outbox in processes that are killed, each at a later line.

Its arguments are a module with `rows(n)`, `move()` and `left()`, and the store. It prints how many
lines it has killed at, and how many rows were written.
"""

import asyncio
import importlib
import os
import sys
from types import FrameType
from typing import Any

from tests.support.patience import LIMIT_S
from waystation import bullmq
from waystation.sync import Queue
from waystation.testing import run_until_empty

KILLED = 9
SOURCES = (
    "integrations/outbox.py",
    "integrations/sqlalchemy.py",
    "integrations/django/jobs.py",
    "waystation_bring/bridge.py",
)


def main() -> None:
    site: Any = importlib.import_module(sys.argv[1])
    url = sys.argv[2]
    lines = written = 0
    many, step = getattr(site, "ROWS", 3), getattr(site, "STEP", 1)
    while True:
        site.rows(many)
        written += many
        lines += step
        if not killed_at(site, lines):
            break
        # What was added is gone before the next mover comes, and must not come again.
        empty(url)
        site.move()
        assert site.left() == 0
    assert lines > 10, f"only {lines} lines were seen"
    site.move()
    assert site.left() == 0
    print(lines, written)


def killed_at(site: Any, line: int) -> bool:
    """Move in a process that dies when it comes to this line of ours; False when it ends before."""
    child = os.fork()
    if child == 0:
        seen = 0

        def trace(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal seen
            if not frame.f_code.co_filename.endswith(SOURCES):
                return None
            if event == "line":
                seen += 1
                if seen == line:
                    os._exit(KILLED)
            return trace

        sys.settrace(trace)
        site.move()
        sys.settrace(None)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, KILLED), code
    return code == KILLED


def empty(url: str) -> None:
    """Complete and remove everything that was added."""
    with Queue("mail", url) as queue:
        if not queue.count():
            return

    async def work() -> None:
        async with bullmq.Queue("mail", url) as queue:
            worker = bullmq.Worker("mail", done, url, remove_on_complete=True)
            await run_until_empty(worker, queue, timeout=LIMIT_S)

    asyncio.run(work())


async def done(job: bullmq.Job) -> None: ...


if __name__ == "__main__":
    main()
