"""Outcomes: how an attempt at a piece of work ended."""

from typing import Any, TypeAlias

import msgspec


class Done(msgspec.Struct, frozen=True):
    """The handler finished and this is what it returned."""

    result: Any = None
    """What the handler returned."""


class Failed(msgspec.Struct, frozen=True):
    """The handler raised; as a stored outcome: the attempt failed, and there is no other one."""

    error: BaseException
    """What the handler raised."""
    attempt: int = 0
    """The number of the attempt, the first being 1; known once the outcome is stored."""


class Retried(Failed, frozen=True):
    """The attempt failed, and there is another one; only ever a stored outcome."""

    delay_ms: int = 0
    """Milliseconds until the next attempt."""


class Returned(msgspec.Struct, frozen=True):
    """The work is handed back untouched, as if it had never been claimed."""


class Moved(msgspec.Struct, frozen=True):
    """The handler itself has put its work elsewhere; only ever a stored outcome."""


Outcome: TypeAlias = Done | Failed | Returned
"""What came of running a handler."""

Stored: TypeAlias = Done | Failed | Returned | Moved
"""What became of it in the store; a result that cannot be written is stored as a failure."""
