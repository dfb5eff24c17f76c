"""Telling a Ctrl-C from a KeyboardInterrupt that a handler has raised itself."""

import dis
import functools
import signal
import threading
from types import TracebackType
from typing import Any

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
