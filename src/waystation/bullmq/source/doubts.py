"""Outcomes in doubt: sent once already, with a call whose answer was lost.

When such an outcome is sent again and refused, the first call may have been the one that filed it.
The job shows that: nobody else can have ended it while it has not stalled. A job that was not kept
is looked for in the queue's events.
"""

from collections.abc import Sequence
from contextlib import aclosing

from waystation.bullmq.job import Job
from waystation.bullmq.redis import scripts
from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.source.records import Record
from waystation.core.line.event_trail import newest_first
from waystation.core.runtime.claim import Settled
from waystation.core.store.script import Client

Sent = tuple[Settled[Job], Record]
"""An outcome as it will be stored, and what was sent for it."""

Accepted = tuple[Settled[Job], Record, bytes]
"""An outcome that was stored, what was sent for it, and when it was stored."""

_NOT_FILED, _GONE = b"0", b""
_ENDS = (b"completed", b"failed")


async def filed_before(
    client: Client, keys: QueueKeys, sent: Sequence[Sent], *, worker: str
) -> list[bytes | None]:
    """When each job finished, if its outcome was filed by an earlier call, and else None."""
    found = await scripts.filed_before(
        client, keys, base=keys.base, outcomes=[part for each in sent for part in _known(each)]
    )
    gone = {
        each.claim.id.encode(): str(record[0]).encode()
        for (each, record), answer in zip(sent, found, strict=True)
        if answer == _GONE and record[0] in ("completed", "failed")
    }
    ended = await _ended_by(client, keys, gone, worker.encode()) if gone else {}
    return [
        None if answer == _NOT_FILED else answer or ended.get(each.claim.id.encode())
        for (each, _), answer in zip(sent, found, strict=True)
    ]


def _known(sent: Sent) -> tuple[str | int, ...]:
    settled, record = sent
    job = settled.claim.work
    kind = str(record[0])
    return (kind, job.id, job.attempts_made, job.attempts_started, job.stalled_count)


async def _ended_by(
    client: Client, keys: QueueKeys, ids: dict[bytes, bytes], worker: bytes
) -> dict[bytes, bytes]:
    """When those jobs ended, as their workers say they did, whose last pickup was this worker's."""
    ended: dict[bytes, bytes] = {}
    ours: dict[bytes, bytes] = {}
    async with aclosing(newest_first(client, keys.events)) as events:
        async for place, event in events:
            id, name = event.get(b"jobId", b""), event.get(b"event")
            if id not in ids:
                continue
            if name in _ENDS:
                # One that was cancelled has failed, whatever its worker has sent.
                if name != ids[id]:
                    del ids[id]
                    continue
                ended[id] = place.partition(b"-")[0]
            elif name == b"active":
                del ids[id]
                if id in ended and event.get(b"workerId") == worker:
                    ours[id] = ended[id]
                if not ids:
                    break
    return ours
