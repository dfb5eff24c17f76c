"""The atomic steps of flows: whole trees added, parents that wait, children that are let go."""

from collections.abc import Sequence
from typing import Any

from waystation.bullmq.redis.keys import JobKeys, QueueKeys
from waystation.bullmq.redis.scripts import SERVER_TIME, ids_or_codes
from waystation.core.store.script import Client, raw, script


def _cursor(answer: Any) -> tuple[int, int]:
    cursor, removed = answer
    return int(cursor), removed


@script(reply=ids_or_codes)
async def add_flow(
    redis: Client, keys: QueueKeys, *, now: str | int = SERVER_TIME, jobs: Sequence[str | bytes]
) -> list[str | int]:
    """Add trees of jobs, all or nothing."""
    ...


@script(reply=raw)
async def move_to_waiting_children(
    redis: Client,
    keys: QueueKeys,
    *,
    base: str,
    id: str,
    token: str,
    child: str = "",
    now: str | int = SERVER_TIME,
) -> int:
    """Leave a job to wait for its children."""
    ...


@script(reply=raw)
async def remove_child_dependency(
    redis: Client, keys: JobKeys, *, base: str, now: str | int = SERVER_TIME
) -> int:
    """Let a parent no longer wait for a child."""
    ...


@script(reply=_cursor)
async def remove_unprocessed_children(
    redis: Client, keys: JobKeys, *, base: str, cursor: int, now: str | int = SERVER_TIME
) -> tuple[int, int]:
    """Remove some of the children that nobody has begun."""
    ...
