"""Pace: how fast a queue starts jobs, from its newest events, and how long others will take."""

import math
from collections.abc import Mapping
from contextlib import aclosing
from typing import NamedTuple

from waystation.console.why.answer import between, count
from waystation.core.line.event_trail import newest_first
from waystation.core.store.script import Client

_LOOKED_AT = 2000
_LEAST = 5
"""Fewer starts than that say nothing about a pace."""
_LONGEST_S = 3600.0
_WIDTH = 1.645
"""Standard deviations on each side of nine out of ten."""


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
