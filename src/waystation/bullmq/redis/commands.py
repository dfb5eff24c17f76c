"""Redis commands, for what needs no script."""

import contextlib
from typing import NamedTuple

from waystation.bullmq.redis.keys import JobKeys, QueueKeys
from waystation.core.durations import Duration, milliseconds
from waystation.core.errors import LeaseLost, NotFound, StoreError, WaystationError, WrongState
from waystation.core.options import at_least
from waystation.core.store.commands import ask, ask_all, fields_of
from waystation.core.store.script import Client

VERSION = "bullmq:6.7.0+waystation"
"""The BullMQ whose wire this is, for dashboards. Not quite as Node writes it: scripts have to know
whether, and which, BullMQ has opened the queue."""
_NEVER_REACHED = 2**53 - 1


async def sign(client: Client, keys: QueueKeys) -> bool:
    """Write who made a queue, if nobody has; False when the store does not take it now."""
    # What was added stays added, so this is tried again with the next one.
    with contextlib.suppress(StoreError):
        await ask(client, "HSETNX", keys.meta, "version", VERSION)
        return True
    return False


async def hash_at(client: Client, key: str) -> dict[bytes, bytes]:
    """All fields of a hash; none when there is no such key."""
    return fields_of(await ask(client, "HGETALL", key))


class Logs(NamedTuple):
    """Lines of a job's log, and how many it has in all."""

    lines: list[str]
    total: int


async def read_logs(
    client: Client, keys: JobKeys, offset: int, limit: int | None, *, newest_first: bool
) -> Logs:
    """Read lines of a job's log."""
    start, end = page_of(offset, limit)
    first, last = (-(end + 1), -(start + 1)) if newest_first else (start, end)
    raw, total = await ask_all(client, ("LRANGE", keys.logs, first, last), ("LLEN", keys.logs))
    lines = [line.decode("utf-8", "replace") for line in raw]
    return Logs(lines[::-1] if newest_first else lines, total)


async def block_for(client: Client, keys: QueueKeys, duration: Duration) -> None:
    """Start no job for a while, where a rate limit is set."""
    ms = max(1, milliseconds(duration, "the duration of a rate limit", above=0))
    await ask(client, "SET", keys.limiter, _NEVER_REACHED, "PX", ms)


def page_of(offset: int, limit: int | None) -> tuple[int, int]:
    """The first and the last place of a page; -1 is the end."""
    at_least("offset", offset, 0)
    if limit is None:
        return offset, -1
    return offset, offset + at_least("limit", limit, 1) - 1


def refusal(code: int, job_id: str, *, wanted: str = "active") -> WaystationError:
    """The error that a code stands for; `wanted` is the state that the step asks for."""
    match code:
        case -1:
            return NotFound(f"there is no job {job_id}")
        case -2:
            return LeaseLost(f"the lock of job {job_id} has run out")
        case -4:
            return WrongState(f"job {job_id} has children that are not finished")
        case -5:
            return NotFound(f"the parent of job {job_id} is gone")
        case -6:
            return LeaseLost(f"job {job_id} is held by somebody else")
        case -7:
            return WrongState(f"job {job_id} has another parent already")
        case -9:
            # In Node's words, because that is what dashboards and alerts look for.
            return WrongState(
                f"Cannot complete job {job_id} because it has at least one failed child. "
                "moveToWaitingChildren"
            )
        case _:
            return WrongState(f"job {job_id} is not {wanted}")
