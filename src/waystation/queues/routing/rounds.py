"""Duties that end when they are told to, even in the middle of a call."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from waystation.core.errors import StoreError


def leave_if_cancelled() -> None:
    """End the task that has been told to, when the call it was in has kept that to itself."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def cancellable(duty: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    """The same duty, for a loop that has to end at once.

    A client that is cancelled while it connects may report a lost connection instead; a loop would
    take that for trouble with the store, and go round for ever.
    """

    @wraps(duty)
    async def pass_of_it() -> None:
        try:
            await duty()
        except StoreError:
            leave_if_cancelled()
            raise
        leave_if_cancelled()

    return pass_of_it
