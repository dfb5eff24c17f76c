"""The presence of a worker: its entry among those of its queue. Internal."""

from waystation.bullmq.source.callbacks import Callbacks
from waystation.bullmq.source.claims import BullSource


class Presence:
    """The worker's entry among the queue's workers, with its events `ready` and `closed`."""

    def __init__(self, source: BullSource, callbacks: Callbacks) -> None:
        self._source = source
        self._callbacks = callbacks
        self._is_open = False

    async def open(self) -> None:
        """Show up."""
        await self._source.open()
        self._is_open = True
        self._callbacks.emit("ready")

    async def close(self) -> None:
        """Leave, and wait for what listeners have begun."""
        await self._source.close()
        if self._is_open:
            self._callbacks.emit("closed")
        await self._callbacks.calls.finish()
