"""How long tests wait for what must happen: generously, and longer on a machine that is slow."""

import asyncio
import inspect
import os
from collections.abc import Callable
from typing import Any

PATIENCE = float(os.environ.get("WAYSTATION_TEST_PATIENCE", "1"))
"""By how much every limit is stretched."""

LIMIT_S = 60 * PATIENCE
"""For what happens at once on a quiet machine: it ends a test that hangs, and measures nothing."""


async def until(holds: Callable[[], Any]) -> None:
    """Wait until something holds, which may have to be awaited to be known."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            found = holds()
            if await found if inspect.isawaitable(found) else found:
                return
            await asyncio.sleep(0.002)


def limit(seconds: float) -> float:
    """A limit for what takes longer even on a quiet machine."""
    return seconds * PATIENCE
