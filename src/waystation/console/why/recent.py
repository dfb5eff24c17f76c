"""A queue's newest events: how fast it starts jobs, and whether nearly all of them fail."""

import math
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import NamedTuple

from waystation.console.why.answer import Cause, Finding, at, between, count, iso, line
from waystation.core.codec import as_text
from waystation.core.events import EventName
from waystation.core.store.commands import newest_first
from waystation.core.store.script import Client

_LOOKED_AT = 2000
_LEAST = 5
"""Fewer starts, or failed attempts, than that say nothing about a queue."""
_LONGEST_S = 3600.0
_WIDTH = 1.645
"""Standard deviations on each side of nine out of ten."""


async def events_of(client: Client, stream: str) -> AsyncGenerator[tuple[float, dict[str, str]]]:
    """When a stream's newest events happened, and what they say, from the last back."""
    async with aclosing(newest_first(client, stream)) as events:
        async for id, fields in events:
            texts = {as_text(name): as_text(text) for name, text in fields.items()}
            yield float(id.partition(b"-")[0]), texts


async def newest(
    client: Client, stream: str, wanted: Callable[[dict[str, str]], bool]
) -> tuple[float, dict[str, str]] | None:
    """The newest event that is wanted, with its instant; None where none is kept."""
    async with aclosing(events_of(client, stream)) as events:
        async for at_ms, event in events:
            if wanted(event):
                return at_ms, event
    return None


class Pace(NamedTuple):
    """Starts that were seen in a stretch of time, up to now."""

    starts: int
    seconds: float

    def sentence(self, ahead: int) -> str:
        """How long so many others will take, as far as that can be said."""
        if self.starts < _LEAST or self.seconds <= 0:
            return ""
        low, high = self.range_s(ahead)
        seen = f"{count(self.starts, 'start')} in the last {between(self.seconds, self.seconds)}"
        return f", which takes about {between(low, high)} at the present pace ({seen})"

    def range_s(self, ahead: int) -> tuple[float, float]:
        """Seconds between which nine out of ten such waits end, when starts come by chance."""
        each = self.seconds / self.starts
        wait, error = ahead * each, _WIDTH * math.sqrt(1 / self.starts + 1 / max(1, ahead))
        return wait / (1 + error), wait * (1 + error)


async def pace(
    client: Client,
    stream: str,
    now_ms: float,
    *,
    match: Mapping[bytes, bytes] | None = None,
) -> Pace:
    """The pace of the last hour, or of the newest events of it."""
    starts, looked, first = 0, 0, now_ms
    async with aclosing(newest_first(client, stream)) as events:
        async for id, fields in events:
            at_ms = float(id.partition(b"-")[0])
            looked += 1
            if looked > _LOOKED_AT or now_ms - at_ms > _LONGEST_S * 1000:
                break
            is_its = match is None or all(fields.get(name) == text for name, text in match.items())
            if is_its and fields.get(b"event") == b"active":
                starts += 1
                first = at_ms
    return Pace(starts, (now_ms - first) / 1000)


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

    def found(self) -> Finding:
        """The cause and its sentence."""
        which = "all" if self.failed == self.attempts else f"{self.failed:,}"
        since = f"since {at(self.since_ms)}{'' if self.is_since_then else ' at least'}"
        return Finding(
            Cause.FAILING,
            f"fails: {which} of the last {count(self.attempts, 'attempt')} failed, {since}"
            + (f" ({line(self.reason)})" if self.reason else ""),
            {
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
