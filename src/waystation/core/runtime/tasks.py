"""Ending tasks for certain."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

from waystation.core.telemetry.logs import get_logger

_log = get_logger(__name__)

_ASK_AGAIN_S = 0.5
_MOST_TIMES = 10


async def end(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel tasks until they are over.

    More than once, because a cancellation can get lost: a client that is just connecting may take
    it for a failed connection. A task that outlasts even that is left behind, and said so.
    """
    pending = {task for task in tasks if not task.done()}
    for _ in range(_MOST_TIMES):
        if not pending:
            return
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=_ASK_AGAIN_S)
    _log.warning("tasks_left_behind", count=len(pending))


async def go_on(task: asyncio.Task[Any]) -> None:
    """Let the current task do other things after what was cancelled in it."""
    while task.cancelling():
        task.uncancel()
    # Before Python 3.13 a cancellation that has not been delivered yet comes all the same.
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)


def leave_if_cancelled() -> None:
    """End the task that has been asked to, when the call it was in has kept that to itself."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
