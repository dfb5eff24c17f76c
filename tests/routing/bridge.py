"""A client in another language: it loads script files and sends plain commands."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from waystation.routing.redis import scripts

LITERAL = Path(__file__).parent / "literal"

_OURS = {
    name: getattr(scripts, name).source
    for name in ("claim_job", "process_delayed", "process_cron", "release_lock")
}
_LITERAL = {file.stem: file.read_text() for file in LITERAL.glob("*.lua")}


class Bridge:
    """The four documented scripts, from our files or word for word from the document."""

    def __init__(self, redis: Redis, *, literal: bool = False, namespace: str = "bridge") -> None:
        self.redis = redis
        self._scripts = _LITERAL if literal else _OURS
        self._jobs = f"{namespace}:jobs:"
        self._namespace = namespace

    async def dispatch(self, id: str, *, priority: int = 5, type: str = "email", **job: Any) -> str:
        """Save the data, then push the id, as the document's producer does."""
        data: dict[str, Any] = {"jobId": id, "type": type, "payload": {}, "priority": priority}
        data |= job
        await self.run(
            "dispatch",
            [f"{self._jobs}data:", f"{self._jobs}waiting"],
            [id, json.dumps(data), priority],
        )
        return id

    async def claim(
        self,
        worker: str = "w1",
        *,
        stack: Sequence[str] = ("node",),
        capabilities: Sequence[str] = (),
        region: Sequence[str] = (),
        now: int = 1_700_000_000_000,
        ttl: int = 30,
    ) -> dict[str, Any] | None:
        raw = await self.run(
            "claim_job",
            [f"{self._jobs}waiting", f"{self._jobs}active", f"{self._namespace}:queues:paused"],
            [
                worker,
                *(json.dumps(list(each)) for each in (stack, capabilities, region)),
                now,
                ttl,
                f"{self._jobs}data:",
                f"{self._jobs}lock:",
                f"{self._namespace}:ratelimit:concurrent:",
            ],
        )
        return json.loads(raw) if raw else None

    async def process_delayed(self, now: int, batch: int = 100) -> int:
        keys = [f"{self._jobs}delayed", f"{self._jobs}waiting"]
        return await self.run("process_delayed", keys, [now, batch])

    async def process_cron(self, now: int, batch: int = 100) -> bytes:
        keys = [f"{self._jobs}cron", f"{self._jobs}waiting", f"{self._jobs}data:"]
        return await self.run("process_cron", keys, [now, batch])

    async def release(self, id: str, worker: str = "w1", type: str = "email") -> int:
        keys = [
            f"{self._jobs}lock:{id}",
            f"{self._jobs}active",
            f"{self._namespace}:ratelimit:concurrent:{type}",
        ]
        return await self.run("release_lock", keys, [worker, id])

    async def run(self, name: str, keys: list[str], args: list[Any]) -> Any:
        source = self._scripts.get(name) or _LITERAL[name]
        sha: Any = await self.redis.script_load(source)
        result: Any = self.redis.evalsha(sha, len(keys), *keys, *args)
        return await result
