"""Recent ends: whether everything that ended lately has failed, from a queue's newest events."""

from collections.abc import Mapping
from contextlib import aclosing
from typing import NamedTuple

from waystation.console.why.answer import Cause, Found, at, count, iso, line
from waystation.core.events import EventName
from waystation.core.line.event_trail import newest_first
from waystation.core.store.script import Client

_LEAST = 5
"""Fewer attempts than that say nothing about a queue."""
_WELL = EventName.COMPLETED.encode()
_DEAD = EventName.DEAD.encode()
_BADLY = {each.encode() for each in (EventName.FAILED, EventName.RETRY, EventName.DEAD)}


class Failing(NamedTuple):
    """Attempts of a queue, all of which have failed, since the last that did not."""

    attempts: int
    since_ms: float
    reason: str
    is_since_then: bool
    """False where events do not reach back to one that ended well."""

    def found(self) -> Found:
        """The cause and its sentence."""
        since = f"since {at(self.since_ms)}" if self.is_since_then else "as far as events are kept"
        return Found(
            cause=Cause.FAILING,
            text=f"fails: all of the last {count(self.attempts, 'attempt')} failed, {since}"
            + (f" ({line(self.reason)})" if self.reason else ""),
            evidence={"failed_attempts": self.attempts, "failing_since": iso(self.since_ms)},
        )


async def failing(
    client: Client, stream: str, *, match: Mapping[bytes, bytes] | None = None
) -> Failing | None:
    """Whether each of the newest attempts has failed; None when one ended well, or few ended."""
    attempts, since_ms, reason, dead = 0, 0.0, "", b""
    async with aclosing(newest_first(client, stream)) as events:
        async for id, fields in events:
            if match and any(fields.get(name) != text for name, text in match.items()):
                continue
            event = fields.get(b"event")
            if event == _WELL:
                return _enough(attempts, since_ms, reason, is_since_then=True)
            if event not in _BADLY:
                continue
            subject = fields.get(b"subject", fields.get(b"jobId", b""))
            # Routing tells the end of a job twice: that it failed, and that it is dead.
            attempts += subject != dead
            dead = subject if event == _DEAD else b""
            since_ms = float(id.partition(b"-")[0])
            reason = _reason(fields) if attempts == 1 else reason
    return _enough(attempts, since_ms, reason, is_since_then=False)


def _enough(attempts: int, since_ms: float, reason: str, *, is_since_then: bool) -> Failing | None:
    return Failing(attempts, since_ms, reason, is_since_then) if attempts >= _LEAST else None


def _reason(fields: Mapping[bytes, bytes]) -> str:
    names = (b"failedReason", b"error", b"reason")
    return next((fields[name] for name in names if fields.get(name)), b"").decode(errors="replace")
