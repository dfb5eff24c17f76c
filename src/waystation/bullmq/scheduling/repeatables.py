"""Repeatable jobs of BullMQ 5: jobs that were added with a `repeat` option. Internal.

Schedulers have replaced them, but many queues still hold some. The worker that runs one adds the
next from its name, data and options.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, cast

from waystation.bullmq.job import Job
from waystation.bullmq.redis import scripts
from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.scheduling import cron
from waystation.bullmq.scheduling.schedule import whole
from waystation.core import codec
from waystation.core.store.script import Client


async def advance(client: Client, keys: QueueKeys, job: Job, *, now: int) -> str | None:
    """Add the next job; returns its id, or None when there is none to add."""
    options = job.options.raw
    repeat: Mapping[str, Any] = options.get("repeat") or {}
    repeatable, previous = job.scheduler_id or "", whole(options.get("prevMillis")) or 0
    count = (whole(repeat.get("count")) or 0) + 1
    slot = None if _is_over(repeat, count, now) else _next_slot(repeat, max(now, previous))
    if slot is None:
        return None
    id = _id_of(repeatable, job.name, job.data, slot)
    delay = max(slot + (whole(repeat.get("offset")) or 0) - now, 0)
    again = {
        **options,
        "repeat": {**repeat, "count": count},
        "jobId": id,
        "delay": delay,
        "timestamp": now,
        "prevMillis": slot,
        "repeatJobKey": repeatable,
    }
    is_made = await scripts.advance_repeatable(
        client,
        keys,
        now=now,
        repeatable=repeatable,
        previous=previous,
        slot=slot,
        job=id,
        name=job.name,
        data=codec.encode(job.data),
        opts=codec.encode(again),
        delay=delay,
        priority=job.priority,
        lifo=int(job.options.lifo),
    )
    return id if is_made else None


def _is_over(repeat: Mapping[str, Any], count: int, now: int) -> bool:
    limit, end = whole(repeat.get("limit")), whole(repeat.get("endDate"))
    return (limit is not None and count > limit) or (end is not None and now > end)


def _next_slot(repeat: Mapping[str, Any], after: int) -> int | None:
    every, pattern = whole(repeat.get("every")), repeat.get("pattern") or repeat.get("cron")
    if every is not None and every > 0:
        return after // every * every + every
    if not isinstance(pattern, str):
        return None
    start, end = whole(repeat.get("startDate")) or 0, whole(repeat.get("endDate"))
    slot = cron.next_after(pattern, repeat.get("tz"), max(after, start))
    return None if slot is not None and end is not None and slot > end else slot


def _id_of(repeatable: str, name: str, data: Any, slot: int) -> str:
    if repeatable.count(":") < 2:
        return f"repeat:{repeatable}:{slot}"
    # The keys of BullMQ 3 and 4 spell the schedule out, and their jobs' ids have a hash of it.
    own = cast(Mapping[str, Any], data).get("id") if isinstance(data, Mapping) else None
    return f"repeat:{_md5(name + str(own or '') + _md5(repeatable))}:{slot}"


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
