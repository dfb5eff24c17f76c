"""Added jobs: what the store has answered for each, as jobs or as the reasons why not. Internal."""

from typing import TypeAlias

from waystation.bullmq.job import Job, QueueRef
from waystation.bullmq.options import stored_options
from waystation.bullmq.redis.packing import Packed
from waystation.bullmq.redis.scripts import Existing
from waystation.core.errors import NotAdded, NotFound, WaystationError, WrongState

Added: TypeAlias = Job | WaystationError
"""The job that was added, or the reason why it was refused."""


def all_of(jobs: list[Added]) -> list[Job]:
    """All jobs; raises when one was refused."""
    added = [job for job in jobs if isinstance(job, Job)]
    if len(added) == len(jobs):
        return added
    refused = {n: job for n, job in enumerate(jobs) if isinstance(job, WaystationError)}
    raise NotAdded(refused, [job if isinstance(job, Job) else None for job in jobs])


def refusal(name: str, code: int) -> WaystationError:
    """Why a job was refused."""
    if code == -5:
        return NotFound(f"the parent of {name!r} does not exist")
    if code == -7:
        return WrongState(f"{name!r} already has another parent")
    return WrongState(f"{name!r} was refused with {code}")


def as_stored(id: str, packed: Packed, queue: QueueRef, now_ms: bytes) -> Job:
    """The job as it is stored; a new one as it was sent, with our clock instead of the server's."""
    if isinstance(id, Existing) and id.fields:
        return Job(str(id), id.fields, queue)
    name, data, opts, wanted = packed
    fields = {b"name": name, b"data": data, b"opts": opts, b"timestamp": now_ms}
    if wanted:
        asked = stored_options(opts).raw
        for field in ("timestamp", "delay", "priority"):
            if field in asked:
                fields[field.encode()] = b"%d" % asked[field]
        if deduplication := asked.get("de"):
            fields[b"deid"] = deduplication["id"].encode()
    return Job(str(id), fields, queue)
