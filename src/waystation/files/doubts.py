"""Outcomes in doubt: sent once already, with a call whose answer was lost.

When such an outcome is sent again and refused, the first call may have been the one that filed it.
A completed file is remembered by its bytes, which every failure changes; how other attempts ended
is recorded in the queue's events.
"""

from collections.abc import Container, Sequence
from contextlib import aclosing

from waystation.core.line.event_trail import newest_first
from waystation.core.runtime.claim import Claim, Settled
from waystation.core.store import faults
from waystation.core.store.script import Client
from waystation.files.job import Job
from waystation.files.redis.keys import FileKeys
from waystation.files.redis.records import Record


async def cleared(
    client: Client,
    keys: FileKeys,
    sent: Sequence[tuple[Settled[Job], Record]],
    codes: Sequence[int],
    in_doubt: Container[Claim[Job]],
) -> Sequence[int]:
    """The codes of one worker's outcomes, but 0 for those that an earlier call has stored."""
    codes = list(codes)
    doubted = [at for at, code in enumerate(codes) if code and sent[at][0].claim in in_doubt]
    if doubted:
        records = [sent[at][1] for at in doubted]
        filed = await _filed_before(client, keys, records, worker=sent[0][0].claim.token)
        for at in (at for at, was_filed in zip(doubted, filed, strict=True) if was_filed):
            codes[at] = 0
    return codes


async def _filed_before(
    client: Client, keys: FileKeys, records: Sequence[Record], *, worker: str
) -> list[bool]:
    """Whether each outcome was filed by an earlier call of its worker."""
    filed = [await _is_plain(client, keys, record) for record in records]
    if not all(filed):
        known = await _recorded(client, keys, worker)
        filed = [
            was or _end_of(record) in known for was, record in zip(filed, records, strict=True)
        ]
    return filed


async def _is_plain(client: Client, keys: FileKeys, record: Record) -> bool:
    """Whether the lists show it; what was handed back is no longer ours, however that came."""
    kind, raw = record[:2]
    if kind != "completed":
        return kind == "returned"
    with faults.translated():
        return await client.execute_command("LPOS", keys.completed, raw) is not None


async def _recorded(client: Client, keys: FileKeys, worker: str) -> set[tuple[bytes, ...]]:
    """Event, file, attempt and reason of every end of this worker's that the events still hold."""
    name = worker.encode()
    async with aclosing(newest_first(client, keys.events)) as events:
        return {
            tuple(event.get(field, b"") for field in (b"event", b"subject", b"attempt", b"reason"))
            async for _, event in events
            if event.get(b"worker") == name
        }


def _end_of(record: Record) -> tuple[bytes, ...]:
    kind, _, id, _, attempt = record[:5]
    # A file that was taken back from a silent worker has another reason than ours in its event.
    reason = {"retry": 7, "dead": 6}.get(str(kind))
    parts = (kind, id, attempt, "" if reason is None else record[reason])
    return tuple(str(part).encode() for part in parts)
