"""How everything that belongs to a queue gets to the store, and leaves it."""

from waystation.bullmq.redis.keys import PREFIX, QueueKeys
from waystation.core.store.client import StoreClient
from waystation.core.store.connection import Store
from waystation.core.store.script import Client


class QueueClient(StoreClient):
    """Something that works on one queue."""

    def __init__(self, name: str, url: str | Store | None = None, *, prefix: str = PREFIX) -> None:
        super().__init__(url)
        self.keys = QueueKeys(name, prefix=prefix)

    async def _at_hand(self) -> tuple[Client, QueueKeys]:
        """What every step takes: a client, and the keys."""
        return (await self._connected()).hot, self.keys

    @property
    def name(self) -> str:
        """The queue's name."""
        return self.keys.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.keys.qualified!r})"
