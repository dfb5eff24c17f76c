"""Upkeep: jobs whose workers have gone are put back into the queue. Internal."""

from waystation.bullmq.redis import scripts
from waystation.bullmq.redis.keys import QueueKeys
from waystation.core.clock import SERVER_TIME
from waystation.core.store.script import Client
from waystation.core.telemetry.logs import get_logger

_log = get_logger(__name__)

STALLED_INTERVAL_MS = 30_000
MAX_STALLED = 1
RECOVERED_AT_ONCE = 1000
"""Jobs that one script call puts back; more would block the server for too long."""
WOKEN_AT_ONCE = 100


async def wake_overdue(client: Client, keys: QueueKeys) -> None:
    """Make jobs ready to fail that wait for a child and have passed their deadlines."""
    while await scripts.wake_overdue(client, keys, most=WOKEN_AT_ONCE) == WOKEN_AT_ONCE:
        pass


async def recover_stalled(
    client: Client,
    keys: QueueKeys,
    *,
    interval_ms: int = STALLED_INTERVAL_MS,
    max_stalled: int = MAX_STALLED,
) -> list[str]:
    """Make one pass; a job is put back by the second pass that finds it without a lock."""
    recovered: list[str] = []
    while True:
        some = await scripts.recover_stalled(
            client,
            keys,
            now=SERVER_TIME,
            interval_ms=interval_ms,
            max_stalled=max_stalled,
            most=RECOVERED_AT_ONCE,
        )
        recovered += some
        if len(some) < RECOVERED_AT_ONCE:
            break
    if recovered:
        _log.info("requeued stalled jobs", product="bullmq", queue=keys.name, count=len(recovered))
    for id in recovered:
        _log.warning("job_stalled", product="bullmq", queue=keys.name, job_id=id)
    return recovered
