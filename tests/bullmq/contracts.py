"""A queue behind the verbs of the spec's contracts."""

from typing import Any, NamedTuple

from tests.bullmq.harness import Harness
from waystation.bullmq.job import Job
from waystation.bullmq.redis import scripts
from waystation.core.errors import Unrecoverable, WaystationError
from waystation.core.outcome import Failed
from waystation.core.runtime.claim import Claim

LEASE_MS = 30_000


class Held(NamedTuple):
    """A job that a worker holds."""

    id: str
    token: str
    claim: Claim[Job] | None = None


class System:
    """The verbs of the contracts, on one queue."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness

    async def add(self, **options: Any) -> str:
        return await self.harness.add(**options)

    async def claim(self) -> Held | None:
        claims = await self.harness.claim()
        if not claims:
            return None
        if reason := claims[0].work.deferred_failure:
            await self.harness.end(claims[0], Failed(Unrecoverable(reason)))
            return None
        return Held(claims[0].id, claims[0].token, claims[0])

    async def extend(self, held: Held) -> bool:
        return not await self.harness.extend(_claim(held))

    async def complete(self, held: Held) -> bool:
        return await self.harness.complete(_claim(held)) is None

    async def fail(self, held: Held) -> bool:
        return await self.harness.fail(_claim(held)) is None

    async def check_stalled(self) -> None:
        # The throttle is what a waiting time would have removed; it has tests of its own.
        for _ in range(2):
            await self.harness.redis.delete(self.harness.keys.stalled_check)
            await self.harness.check_stalled()

    async def progress(self, id: str, value: int) -> bool:
        keys = self.harness.keys
        try:
            code = await scripts.update_progress(
                self.harness.store.hot, keys, id=id, progress=b"%d" % value
            )
        except WaystationError:
            return False
        return code >= 0


def _claim(held: Held) -> Claim[Job]:
    return held.claim or Claim(held.id, Job(held.id, {}, None), held.token)
