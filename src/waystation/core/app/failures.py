"""Failures of commands: one line on stderr, and an exit code."""

import sys
from collections.abc import Generator
from contextlib import contextmanager

from waystation.core.app.invocation import Invocation
from waystation.core.errors import (
    START_THE_STORE,
    InvalidInput,
    StoreBusy,
    StoreUnreachable,
    StoreUnsuitable,
    WaystationError,
)

FAILED = 1
REFUSED = 2
"""The command could not begin: its input, its settings or its store must change first."""
NO_JAVA = 5
"""The Java that Spark runs in ended or ran out of memory; starting again goes on from there."""
UNAVAILABLE = 69
"""The store is away, loading or full; the same command may succeed later."""


@contextmanager
def in_one_line(invocation: Invocation) -> Generator[None]:
    """End the process with one line instead of a traceback, unless that was asked for."""
    try:
        yield
    except Exception as error:
        if invocation.debug:
            raise
        print(f"waystation: {_sentence(error)}", file=sys.stderr)
        sys.exit(exit_code(error))


def exit_code(error: Exception) -> int:
    """The exit code that stands for an error."""
    match error:
        case StoreUnreachable() | StoreBusy():
            return UNAVAILABLE
        case InvalidInput() | StoreUnsuitable():
            return REFUSED
        case WaystationError() if error.code in ("JAVA_DIED", "HEAP_EXHAUSTED"):
            return NO_JAVA
        case _:
            return FAILED


def _sentence(error: Exception) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, StoreUnreachable):
        return f"{text.removesuffix('.')}; {START_THE_STORE}"
    if isinstance(error, WaystationError):
        return text
    kind = type(error).__name__
    return f"this should not happen ({kind}: {text}); --debug before the command shows where"
