"""The timeline of a job, read from the events that are still in its queue's stream."""

from waystation.console.products.queue import short
from waystation.console.products.views import Moment
from waystation.core.durations import instant, possible_instant
from waystation.core.line.event_trail import newest_first
from waystation.core.store.connection import Store

LOOKED_AT = 3000
"""Events that are looked through for one job, from the newest back."""
_SUBJECTS = (b"jobId", b"subject")
_NOTES = (b"failedReason", b"reason", b"error", b"worker")


async def moments_of(store: Store, stream: str, id: str) -> list[Moment]:
    """What happened to a job, the oldest first; empty when its events are gone."""
    found: list[Moment] = []
    wanted, seen = id.encode(), 0
    async for at, fields in newest_first(store.hot, stream):
        seen += 1
        if any(fields.get(name) == wanted for name in _SUBJECTS):
            found.append(_moment(at, fields))
            if fields.get(b"event") == b"added":
                break
        if seen >= LOOKED_AT:
            break
    return found[::-1]


def _moment(id: bytes, fields: dict[bytes, bytes]) -> Moment:
    note = next((fields[name] for name in _NOTES if fields.get(name)), b"")
    return Moment(
        at=possible_instant(int(id.partition(b"-")[0])) or instant(0),
        what=fields.get(b"event", b"?").decode("utf-8", "replace"),
        note=short(note.decode("utf-8", "replace"), 300),
    )
