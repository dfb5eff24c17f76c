"""Marks in the queues that a history follows them.

A script that removes a job writes what it was into an event while there is such a mark, unless the
history has read it already. A mark expires, so that a history which is given up costs nothing.
"""

import time
from typing import Any

from waystation.bullmq.redis.keys import QueueKeys

FIELD = "history"
FOLLOWED_MS = 26 * 3_600_000
"""Milliseconds that a mark counts: a history that runs once a day keeps it alive."""


def mark_followed(client: Any, prefix: str, queue: str, *, reached_ms: int | None = None) -> None:
    """Mark a BullMQ queue as followed; `reached_ms` is how far its events have been stored."""
    meta = QueueKeys(queue, prefix=prefix).meta
    if reached_ms is None:
        before = (client.hget(meta, FIELD) or b"0").partition(b":")[0]
        reached_ms = int(before) if before.isdigit() else 0
    until_ms = int(time.time() * 1000) + FOLLOWED_MS
    client.hset(meta, FIELD, f"{reached_ms}:{until_ms}")
