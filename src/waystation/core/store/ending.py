"""Endings: what goes on for long at a store, and stops when the one or the other is closed."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from waystation.core.store import faults

T = TypeVar("T")

_STOP_AGAIN_S = 0.05


async def before(
    endings: Sequence[asyncio.Event], step: Callable[[], Coroutine[Any, Any, T]], sentence: str
) -> T:
    """The answer of a step; the error of what has been closed if one of the endings comes first."""
    if any(each.is_set() for each in endings):
        raise faults.closed(sentence)
    going_on = asyncio.create_task(step())
    waits = [asyncio.create_task(each.wait()) for each in endings]
    try:
        await asyncio.wait([going_on, *waits], return_when=asyncio.FIRST_COMPLETED)
        if going_on.done():
            return going_on.result()
    finally:
        for each in waits:
            each.cancel()
        await _stop(going_on)
    raise faults.closed(sentence)


async def _stop(task: "asyncio.Task[Any]") -> None:
    while not task.done():
        # More than once, because redis-py loses a cancellation while it connects.
        task.cancel()
        await asyncio.wait([task], timeout=_STOP_AGAIN_S)
    if not task.cancelled():
        # Nobody is interested in how it has stopped, which asyncio would call forgotten.
        task.exception()
