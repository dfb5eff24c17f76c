"""Passes over many webhooks in which none of them holds up another."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from waystation.core.telemetry.logs import get_logger

WAIT_S = 1.0
"""How long a pass waits for those whom it serves; who is slower goes on meanwhile."""
MOST = 64
"""Webhooks that are served at once."""
_log = get_logger(__name__)


class Passes:
    """Serves each webhook in a task of its own, one at a time."""

    def __init__(self) -> None:
        self._served: dict[str, asyncio.Task[None]] = {}
        self._before: dict[str, None] = {}
        """Those who have been served, the longest ago first."""

    async def serve(self, work: Mapping[str, Callable[[], Coroutine[Any, Any, None]]]) -> None:
        """Serve each of these whom no earlier pass still serves; what one raises is its own."""
        # Who has waited longest comes first: as many slow ones must not keep the others out.
        self._before = {id: None for id in self._before if id in work}
        for id in [*(id for id in work if id not in self._before), *self._before]:
            if id not in self._served and len(self._served) < MOST:
                self._served[id] = asyncio.ensure_future(work[id]())
                self._before.pop(id, None)
                self._before[id] = None
        if self._served:
            await asyncio.wait(self._served.values(), timeout=WAIT_S)
        for id, task in list(self._served.items()):
            if task.done():
                del self._served[id]
                if not task.cancelled() and (error := task.exception()):
                    _log.error("webhook_failed", error, webhook=id)

    async def close(self) -> None:
        """End what is under way; the next pass sends it again."""
        for task in self._served.values():
            task.cancel()
        await asyncio.gather(*self._served.values(), return_exceptions=True)
        self._served.clear()
