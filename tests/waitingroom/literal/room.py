"""A room as the spec's scripts and commands make it."""

from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


class LiteralRoom:
    """The commands of the document, as written."""

    def __init__(self, redis: Any, queue: str = "concert-tickets") -> None:
        self.redis: Any = redis
        self.queue = queue
        self.positions = f"queue:{queue}:positions"
        self.sessions = f"queue:{queue}:sessions:active"
        self.heartbeats = "heartbeat:active"

    def waiting(self, priority: int) -> str:
        return f"queue:{self.queue}:waiting:{priority}"

    async def enqueue(
        self, id: str, *, ip: str, at_us: int, priority: int = 0, ttl_s: int = 1800
    ) -> tuple[int, str]:
        keys = (
            self.waiting(priority),
            self.positions,
            f"position:{id}",
            f"ipmap:{self.queue}:{ip}",
            self.heartbeats,
        )
        made, found = await self._run("enqueue", keys, id, at_us, ip, ttl_s, "{}")
        return int(made), found.decode()

    async def dequeue(self, session: str, at_s: int = 0) -> str | None:
        keys = (*(self.waiting(each) for each in range(4)), self.positions, self.sessions)
        found = await self._run("dequeue", keys, session, at_s)
        return found.decode() if found else None

    async def heartbeat(self, id: str, at_s: int, ttl_s: int = 1800) -> int:
        return await self._run("heartbeat", (f"position:{id}", self.heartbeats), id, at_s, ttl_s)

    async def cleanup(self, cutoff_s: int, batch: int = 100) -> list[str]:
        found = await self._run("cleanup", (self.heartbeats, self.positions), cutoff_s, batch)
        return [each.decode() for each in found]

    async def rank(self, id: str) -> int | None:
        found: Any = await self.redis.execute_command("ZRANK", self.positions, id)
        return None if found is None else int(found)

    async def status(self, id: str) -> str | None:
        found: Any = await self.redis.hget(f"position:{id}", "status")
        return found.decode() if found else None

    async def _run(self, name: str, keys: tuple[str, ...], *args: str | int) -> Any:
        text = (HERE / f"{name}.lua").read_text()
        return await self.redis.execute_command("EVAL", text, len(keys), *keys, *args)
