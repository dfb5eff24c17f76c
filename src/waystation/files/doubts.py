"""Outcomes in doubt: sent once already, with a call whose answer was lost.

When such an outcome is sent again and refused, the first call may have been the one that filed it.
A completed file is remembered by its bytes, which every failure changes; how other attempts ended
is told by the line's events.
"""

from collections.abc import Callable, Sequence
from contextlib import aclosing

from waystation.core.runtime.claim import Claim, Settled
from waystation.core.store import faults
from waystation.core.store.script import Client
from waystation.core.store.trail import newest_first
from waystation.files.job import Job
from waystation.files.redis.keys import FileKeys
from waystation.files.redis.records import Record


class Doubts:
    """What was sent with calls whose answers were lost."""

    def __init__(self) -> None:
        self._sent: dict[Claim[Job], Record] = {}

    def records_of(
        self, settled: Sequence[Settled[Job]], record: Callable[[Settled[Job]], Record]
    ) -> list[Record]:
        """What is sent for each outcome: the same as before for those in doubt."""
        if not self._sent:
            return [record(each) for each in settled]
        return [self._sent.get(each.claim) or record(each) for each in settled]

    def add(self, settled: Sequence[Settled[Job]], records: Sequence[Record]) -> None:
        """Doubt outcomes that were sent, and of which nobody knows whether they were filed."""
        self._sent.update(zip((each.claim for each in settled), records, strict=True))

    async def cleared(
        self,
        client: Client,
        keys: FileKeys,
        settled: Sequence[Settled[Job]],
        records: Sequence[Record],
        codes: Sequence[int],
    ) -> Sequence[int]:
        """The same codes without those of outcomes that an earlier call has filed already."""
        if not self._sent:
            return codes
        cleared = list(codes)
        doubted = [
            place
            for place, (each, code) in enumerate(zip(settled, codes, strict=True))
            if code and each.claim in self._sent
        ]
        if doubted:
            worker = settled[0].claim.token
            sent = [records[place] for place in doubted]
            filed = await _filed_before(client, keys, sent, worker=worker)
            for place, was_filed in zip(doubted, filed, strict=True):
                cleared[place] = 0 if was_filed else codes[place]
        for each in settled:
            self._sent.pop(each.claim, None)
        return cleared


async def _filed_before(
    client: Client, keys: FileKeys, records: Sequence[Record], *, worker: str
) -> list[bool]:
    """Whether each outcome was filed by an earlier call of its worker."""
    filed = [await _is_plain(client, keys, record) for record in records]
    if not all(filed):
        told = await _told(client, keys, worker)
        filed = [was or _end_of(record) in told for was, record in zip(filed, records, strict=True)]
    return filed


async def _is_plain(client: Client, keys: FileKeys, record: Record) -> bool:
    """Whether the lists show it; what was handed back is no longer ours, however that came."""
    kind, raw = record[:2]
    if kind != "completed":
        return kind == "returned"
    with faults.translated():
        return await client.execute_command("LPOS", keys.completed, raw) is not None


async def _told(client: Client, keys: FileKeys, worker: str) -> set[tuple[bytes, ...]]:
    """Event, file, attempt and reason of every end of this worker's that is still told."""
    name = worker.encode()
    async with aclosing(newest_first(client, keys.events)) as events:
        return {
            tuple(event.get(field, b"") for field in (b"event", b"subject", b"attempt", b"reason"))
            async for _, event in events
            if event.get(b"worker") == name
        }


def _end_of(record: Record) -> tuple[bytes, ...]:
    kind, _, id, _, attempt = record[:5]
    # A file that was taken back from a silent worker is told with another reason than ours.
    reason = {"retry": 7, "dead": 6}.get(str(kind))
    parts = (kind, id, attempt, "" if reason is None else record[reason])
    return tuple(str(part).encode() for part in parts)
