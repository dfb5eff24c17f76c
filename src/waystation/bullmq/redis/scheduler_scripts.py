"""The atomic steps of job schedulers."""

from collections.abc import Sequence
from typing import Any

from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.redis.scripts import SERVER_TIME
from waystation.core.store.script import Client, script


def _id_or_code(answer: Any) -> str | int:
    return answer.decode() if isinstance(answer, bytes) else int(answer)


@script(reply=_id_or_code)
async def upsert_scheduler(
    redis: Client,
    keys: QueueKeys,
    *,
    base: str,
    scheduler: str,
    slot: str | int,
    every: str | int,
    offset: str | int,
    start_date: str | int,
    name: bytes,
    data: str | bytes,
    opts: str | bytes,
    id: str | bytes,
    priority: int,
    lifo: int,
    deduplication: str,
    fields: Sequence[str | bytes | int],
    now: str | int = SERVER_TIME,
) -> str | int:
    """Make a scheduler, or change one, and its next job."""
    ...


@script(reply=_id_or_code)
async def advance_scheduler(
    redis: Client,
    keys: QueueKeys,
    *,
    base: str,
    scheduler: str,
    job: str,
    slot: str | int,
    opts: str | bytes,
    id: str | bytes,
    priority: int,
    lifo: int,
    deduplication: str,
    now: str | int = SERVER_TIME,
) -> str | int:
    """Make a scheduler's next job, if this job is still the one that keeps it going."""
    ...


@script(reply=bool)
async def advance_repeatable(
    redis: Client,
    keys: QueueKeys,
    *,
    base: str,
    now: int,
    repeatable: str,
    previous: int,
    slot: int,
    job: str,
    name: str,
    data: bytes,
    opts: bytes,
    delay: int,
    priority: int,
    lifo: int,
) -> bool:
    """Make the next job of one of BullMQ 5's repeatable jobs; False when this one makes none."""
    ...


@script(reply=bool)
async def remove_scheduler(redis: Client, keys: QueueKeys, *, base: str, scheduler: str) -> bool:
    """Remove a scheduler, with its next job as long as that waits for its time."""
    ...
