"""How an attempt at a piece of work ended."""

from typing import Any, TypeAlias

import msgspec


class Done(msgspec.Struct, frozen=True):
    """The handler finished and this is what it returned."""

    result: Any = None


class Failed(msgspec.Struct, frozen=True):
    """The handler raised; the line decides whether there is another attempt."""

    error: BaseException


class Returned(msgspec.Struct, frozen=True):
    """The work is handed back untouched, as if it had never been claimed."""


Outcome: TypeAlias = Done | Failed | Returned
