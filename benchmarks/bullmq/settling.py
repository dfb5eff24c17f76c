"""Jobs that are completed while others are claimed, by one call of the script and no worker."""

from collections.abc import Iterable

from waystation.bullmq.redis import scripts
from waystation.bullmq.redis.keys import QueueKeys
from waystation.core.codec import as_text
from waystation.core.store.connection import Store

_TOKEN = "token"
_LEASE_MS = 3_600_000
"""No lock ends while something is measured."""


async def settle(store: Store, keys: QueueKeys, completed: Iterable[str], want: int) -> list[str]:
    """Complete jobs that were claimed here, and claim others: their ids."""
    settlement = await scripts.settle(
        store.hot,
        keys,
        now="",
        token=_TOKEN,
        lease_ms=_LEASE_MS,
        want=want,
        worker="benchmark",
        max="",
        duration="",
        metrics="",
        outcomes=[text for id in completed for text in ("completed", id, _TOKEN, "null", "")],
    )
    assert not any(settlement.codes)
    return [as_text(id) for id in settlement.claims[::2]]
