"""A client that loses answers of the store, as a bad network does."""

from typing import Any

from waystation.core.errors import StoreUnreachable
from waystation.core.store.script import Client


class LossyClient:
    """Loses the answers to the calls whose numbers are in `loses`, after they took effect."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._calls = 0
        self.loses: set[int] = set()
        self._misses = 0

    def lose_next(self, after: int = 0) -> None:
        """Lose the answer to the next script, or to a later one."""
        self.loses.add(self._calls + 1 + after)

    def miss_next(self) -> None:
        """Let the next script not reach the store at all."""
        self._misses = 1

    async def execute_command(self, *args: Any) -> Any:
        if self._misses and args[0] in ("EVALSHA", "EVAL"):
            self._misses -= 1
            raise StoreUnreachable("nobody answers")
        answer = await self._client.execute_command(*args)
        if args[0] not in ("EVALSHA", "EVAL"):
            return answer
        self._calls += 1
        if self._calls in self.loses:
            raise StoreUnreachable("the answer was lost")
        return answer


def make_lossy(source: Any) -> LossyClient:
    """Put a lossy client under a source of jobs, and return it."""
    source._client = lossy = LossyClient(source._client)
    return lossy
