"""Recent ends: whether all or nearly all that ended lately has failed, from a queue's events."""

from collections.abc import Mapping
from contextlib import aclosing
from typing import NamedTuple

from waystation.console.why.answer import Cause, Found, at, count, iso, line
from waystation.core.events import EventName
from waystation.core.line.event_trail import newest_first
from waystation.core.store.script import Client

_LEAST = 5
"""Fewer failed attempts than that say nothing about a queue."""
_LATELY = 50
"""Attempts that are looked at where not all of them have failed."""
_NEARLY_ALL = 0.8
_WELL = EventName.COMPLETED.encode()
_DEAD = EventName.DEAD.encode()
_BADLY = {each.encode() for each in (EventName.FAILED, EventName.RETRY, EventName.DEAD)}


class Failing(NamedTuple):
    """Attempts of a queue, the newest of all, of which all or nearly all have failed."""

    failed: int
    attempts: int
    since_ms: float
    """When the first of them ended."""
    reason: str
    is_since_then: bool
    """False where it may have begun before the oldest event that was looked at."""

    def found(self) -> Found:
        """The cause and its sentence."""
        which = "all" if self.failed == self.attempts else f"{self.failed:,}"
        since = f"since {at(self.since_ms)}{'' if self.is_since_then else ' at least'}"
        return Found(
            cause=Cause.FAILING,
            text=f"fails: {which} of the last {count(self.attempts, 'attempt')} failed, {since}"
            + (f" ({line(self.reason)})" if self.reason else ""),
            evidence={
                "failed_attempts": self.failed,
                "attempts": self.attempts,
                "failing_since": iso(self.since_ms),
            },
        )


async def failing(
    client: Client, stream: str, *, match: Mapping[bytes, bytes] | None = None
) -> Failing | None:
    """Whether all of the newest attempts have failed, or nearly all of the last fifty."""
    failed, well, since_ms, reason, dead = 0, 0, 0.0, "", b""
    async with aclosing(newest_first(client, stream)) as events:
        async for id, fields in events:
            if match and any(fields.get(name) != text for name, text in match.items()):
                continue
            event = fields.get(b"event")
            if event == _WELL:
                if not well and failed >= _LEAST:
                    return Failing(failed, failed, since_ms, reason, is_since_then=True)
                well += 1
            elif event in _BADLY:
                subject = fields.get(b"subject", fields.get(b"jobId", b""))
                # Routing tells the end of a job twice: that it failed, and that it is dead.
                failed += subject != dead
                dead = subject if event == _DEAD else b""
                reason = reason or _reason(fields)
            else:
                continue
            since_ms = float(id.partition(b"-")[0])
            if well and failed + well >= _LATELY:
                break
    if failed < max(_LEAST, _NEARLY_ALL * (failed + well)):
        return None
    return Failing(failed, failed + well, since_ms, reason, is_since_then=bool(well))


def _reason(fields: Mapping[bytes, bytes]) -> str:
    names = (b"failedReason", b"error", b"reason")
    return next((fields[name] for name in names if fields.get(name)), b"").decode(errors="replace")
