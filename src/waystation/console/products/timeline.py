"""The timeline of a job, read from the events that are still in its queue's stream."""

from collections.abc import Mapping

from waystation.console.products.views import Moment, short
from waystation.core.durations import instant, possible_instant
from waystation.core.line.event_trail import newest_first
from waystation.core.store.connection import Store

LOOKED_AT = 3000
"""Events that are looked through for one job, from the newest back."""
_SUBJECTS = (b"jobId", b"subject")
_ENDS = {
    "completed": "completed",
    "failed": "failed",
    "retries-exhausted": "failed",
    "dead": "failed",
    "removed": "gone",
    "cancelled": "gone",
}
_SAYS_NOTHING = ("kept", "progress", "cleaned")
"""Events that may come after the one that tells how a job ended."""
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


async def outcomes(
    store: Store, stream: str, states: Mapping[str, str | None]
) -> Mapping[str, str]:
    """Of jobs in these states, those that have ended: `completed`, `failed` or `gone`.

    One that is not stored any more has ended as its last event says; where none does, nobody
    knows whether it was completed, failed and was not kept, or was removed.
    """
    ended = {id: _ENDS[state] for id, state in states.items() if state in _ENDS}
    missing = {id.encode(): id for id, state in states.items() if state in (None, "unknown")}
    if missing:
        async for _, fields in newest_first(store.hot, stream):
            named = next((fields[name] for name in _SUBJECTS if name in fields), b"")
            event = fields.get(b"event", b"").decode("utf-8", "replace")
            if named in missing and event not in _SAYS_NOTHING:
                ended[missing.pop(named)] = _ENDS.get(event, "gone")
                if not missing:
                    break
    return ended | dict.fromkeys(missing.values(), "gone")


def _moment(id: bytes, fields: dict[bytes, bytes]) -> Moment:
    note = next((fields[name] for name in _NOTES if fields.get(name)), b"")
    return Moment(
        at=possible_instant(int(id.partition(b"-")[0])) or instant(0),
        what=fields.get(b"event", b"?").decode("utf-8", "replace"),
        note=short(note.decode("utf-8", "replace"), 300),
    )
