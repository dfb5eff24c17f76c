"""Ending tasks for certain, and telling a Ctrl-C from an interrupt that a handler has raised."""

import asyncio
import contextlib
import dis
import functools
import signal
import threading
from collections.abc import Sequence
from types import TracebackType
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


_RAISES = ("RAISE_VARARGS", "RERAISE")


def is_from_a_signal(error: KeyboardInterrupt) -> bool:
    """Whether a signal raised this, so that it is meant for the process.

    Signals interrupt the main thread only. A handler written in Python, such as asyncio's, is the
    innermost frame then; the interpreter's own interrupts code anywhere but at a `raise`.
    """
    trace = error.__traceback__
    if trace is None or threading.current_thread() is not threading.main_thread():
        return False
    handler: Any = signal.getsignal(signal.SIGINT)
    trace = _innermost(trace)
    code = trace.tb_frame.f_code
    if handler is signal.default_int_handler:
        return dis.opname[code.co_code[trace.tb_lasti]] not in _RAISES
    function = handler.func if isinstance(handler, functools.partial) else handler
    return code is getattr(function, "__code__", None)


def _innermost(trace: TracebackType) -> TracebackType:
    while trace.tb_next:
        trace = trace.tb_next
    return trace
