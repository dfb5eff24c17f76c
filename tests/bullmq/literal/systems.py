"""Two queues behind the same verbs: the spec taken at its word, and ours.

A defect is shown by one test that takes either; it must fail on the first and pass on the second.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from redis.exceptions import ResponseError

from tests.bullmq.hands import Hands
from waystation.bullmq.job import Job
from waystation.bullmq.redis import scripts
from waystation.core.errors import Unrecoverable, WaystationError
from waystation.core.outcome import Failed
from waystation.core.runtime.claim import Claim

HERE = Path(__file__).parent
LEASE_MS = 30_000


class Held(NamedTuple):
    """A job in a worker's hands."""

    id: str
    token: str
    claim: Claim[Job] | None = None


class System(Protocol):
    """What the spec's contracts let one do with a queue."""

    hands: Hands

    async def add(self, **options: Any) -> str:
        """Submit a job."""
        ...

    async def claim(self) -> Held | None:
        """Pick up the next job."""
        ...

    async def extend(self, held: Held) -> bool:
        """Renew the lock."""
        ...

    async def complete(self, held: Held) -> bool:
        """File a success; whether it counts."""
        ...

    async def fail(self, held: Held, *, retry_in: int | None = None) -> bool:
        """File a failure, for good or to be tried again after milliseconds."""
        ...

    async def check_stalled(self) -> None:
        """Look for jobs whose locks have run out."""
        ...

    async def progress(self, id: str, value: int) -> bool:
        """Tell how far a job is."""
        ...


class Literal:
    """The contracts of the spec as they stand there."""

    def __init__(self, hands: Hands) -> None:
        self.hands = hands
        self._claims = 0
        self._repairs: list[tuple[str, str]] = []

    def repair(self, fault: str, remedy: str) -> None:
        """Mend one fault of a script, so that the next one behind it can be seen."""
        assert any(fault in file.read_text() for file in HERE.glob("*.lua"))
        self._repairs.append((fault, remedy))

    async def add(self, **options: Any) -> str:
        keys, call = self.hands.keys, self.hands.call
        custom = options.pop("job_id", None)
        id = custom or str(await call("INCR", keys.id))
        retention = {"removeOnComplete": options.pop("remove_on_complete", False)}
        opts = json.dumps({"attempts": 3, **retention, **options})
        fields = ("progress", 0, "delay", 0, "timestamp", self._now, "attemptsMade", 0)
        await call("HMSET", keys.of(id).job, "name", "work", "data", "{}", "opts", opts, *fields)
        if priority := options.get("priority", 0):
            await call("ZADD", keys.prioritized, priority, id)
        else:
            await call("RPUSH", keys.wait, id)
        await call(
            *("XADD", keys.events, "*", "event", "waiting", "jobId", id, "timestamp", self._now)
        )
        return id

    async def claim(self) -> Held | None:
        keys = self.hands.keys
        self._claims += 1
        token = f"token-{self._claims}"
        slots = [keys.wait, keys.active, keys.prioritized, keys.delayed]
        slots += [keys.paused, keys.meta, keys.events]
        try:
            reply = await self._run("moveToActive", slots, self._now, token, LEASE_MS, "worker-1")
        except ResponseError:
            return None
        return Held(reply[0].decode(), token) if reply else None

    async def extend(self, held: Held) -> bool:
        lock = self.hands.keys.of(held.id).lock
        return bool(await self._run("extendLock", [lock], held.token, LEASE_MS))

    async def complete(self, held: Held) -> bool:
        keys = self.hands.keys
        slots = [keys.active, keys.completed, *self._of(held.id), keys.events]
        keep = await self._retention(held.id)
        return bool(await self._run("moveToCompleted", slots, held.id, "null", self._now, keep))

    async def fail(self, held: Held, *, retry_in: int | None = None) -> bool:
        keys = self.hands.keys
        if retry_in is None:
            slots = [keys.active, keys.failed, *self._of(held.id), keys.events]
            await self._run("moveToFailed", slots, held.id, "no", "[]", self._now, "false")
            return True
        back = keys.prioritized if "priority" in await self._opts(held.id) else keys.wait
        slots = [keys.active, back, *self._of(held.id), keys.events]
        try:
            return bool(await self._run("retryJob", slots, held.id, retry_in, self._now))
        except ResponseError:
            return False

    async def check_stalled(self) -> None:
        keys = self.hands.keys
        slots = [keys.active, keys.wait, keys.prioritized, keys.events]
        await self._run("moveStalledJobsToWait", slots, keys.base, self._now)

    async def progress(self, id: str, value: int) -> bool:
        keys = self.hands.keys
        slots = [keys.of(id).job, keys.events]
        return bool(await self._run("updateProgress", slots, value, id, self._now))

    @property
    def _now(self) -> int:
        return self.hands.clock.now_ms()

    def _of(self, id: str) -> tuple[str, str]:
        return self.hands.keys.of(id).job, self.hands.keys.of(id).lock

    async def _opts(self, id: str) -> dict[str, Any]:
        return json.loads((await self.hands.hash(id)).get("opts", "{}"))

    async def _retention(self, id: str) -> str:
        return json.dumps((await self._opts(id)).get("removeOnComplete", False))

    async def _run(self, script: str, keys: list[str], *args: str | int) -> Any:
        text = (HERE / f"{script}.lua").read_text()
        for fault, remedy in self._repairs:
            text = text.replace(fault, remedy)
        return await self.hands.call("EVAL", text, len(keys), *keys, *args)


class Ours:
    """What waystation does for the same contracts."""

    def __init__(self, hands: Hands) -> None:
        self.hands = hands

    async def add(self, **options: Any) -> str:
        return await self.hands.add(**options)

    async def claim(self) -> Held | None:
        claims = await self.hands.claim()
        if not claims:
            return None
        if reason := claims[0].work.deferred_failure:
            await self.hands.end(claims[0], Failed(Unrecoverable(reason)))
            return None
        return Held(claims[0].id, claims[0].token, claims[0])

    async def extend(self, held: Held) -> bool:
        return not await self.hands.extend(_claim(held))

    async def complete(self, held: Held) -> bool:
        return await self.hands.complete(_claim(held)) is None

    async def fail(self, held: Held, *, retry_in: int | None = None) -> bool:
        return await self.hands.fail(_claim(held)) is None

    async def check_stalled(self) -> None:
        # The throttle is what a waiting time would have removed; it has tests of its own.
        for _ in range(2):
            await self.hands.redis.delete(self.hands.keys.stalled_check)
            await self.hands.check_stalled()

    async def progress(self, id: str, value: int) -> bool:
        keys = self.hands.keys
        try:
            code = await scripts.update_progress(
                self.hands.store.hot, keys, base=keys.base, id=id, progress=b"%d" % value
            )
        except WaystationError:
            return False
        return code >= 0


def _claim(held: Held) -> Claim[Job]:
    return held.claim or Claim(held.id, Job(held.id, {}, None), held.token)
