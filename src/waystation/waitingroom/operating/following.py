"""Following: the admission rate driven by what lies behind the room."""

import asyncio
import math
import time
from urllib.parse import urlsplit

import msgspec

from waystation.core import codec
from waystation.core.errors import InvalidOption, Malformed, WrongState
from waystation.core.options import check_fields, checked
from waystation.waitingroom.options import MOST_RATE
from waystation.waitingroom.room import Room

EVERY_S = 5.0
"""How often the site behind is looked at."""
SETTLES_S = 4.0
"""How long a change of the rate is left alone, so that several processes change it once."""
SLOWER, FASTER = 0.5, 1.1
"""By how much the rate falls at most, and rises, with one look."""
CALM = 0.8
"""Below this share of the target the rate may rise again."""
PATIENCE_S = 10.0
LARGEST = 4_000_000


class FollowOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the rate of a room follows, and how far it may go."""

    url: str
    """The site's health page, or where its metrics are."""
    series: str = ""
    """The metric to read there, such as queue_length{queue="mail"}; empty to time the page."""
    target: float = 1.0
    """The seconds that the page may take, or the value that the metric may have."""
    least: float = 0.1
    """The rate is never lower than this, so that somebody finds out that the site is well again."""
    most: float = 10.0
    """The rate is never higher than this."""

    def __post_init__(self) -> None:
        check_fields(self)
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise InvalidOption(f"url must start with http:// or https://, got {self.url!r}")
        if not 0 < self.target < math.inf:
            raise InvalidOption(f"target must be more than 0, got {self.target}")
        if not 0 < self.least <= self.most <= MOST_RATE:
            raise InvalidOption(
                f"least and most must be above 0 and in this order, got {self.least}, {self.most}"
            )


class Reading(msgspec.Struct, frozen=True):
    """What was seen of the site behind."""

    value: float | None
    """Seconds, or the metric's value; None when there was no answer that counts."""
    said: str
    """The same in words, for the operator."""


@checked
class Following:
    """Drives the rate of one room; several processes may run it."""

    def __init__(self, room: Room) -> None:
        self._room = room

    async def start(self, options: FollowOptions) -> int:
        """Follow this from now on; return the room's new version."""
        return await self._room.store.write({"follow": codec.encode(options).decode()})

    async def stop(self) -> int:
        """Leave the rate where it is; return the room's new version."""
        return await self._room.store.write({"follow": "", "follow_said": "", "follow_us": ""})

    async def keep(self) -> bool:
        """Look at the site once and adjust the rate; False when it stays as it is."""
        state = await self._room.state()
        try:
            options = codec.decode(state.fields.get("follow", ""), FollowOptions)
        except (Malformed, InvalidOption):
            return False
        if state.now_ms - int(state.fields.get("follow_us", 0)) / 1000 < SETTLES_S * 1000:
            return False
        # Following never goes below `least`: a rate of nothing was set by somebody who meant it.
        if state.options.admission_rate <= 0:
            return False
        reading = await look(options)
        rate = next_rate(options, state.rate, reading)
        if math.isclose(rate, state.rate, rel_tol=1e-6):
            return False
        fields = {
            "admission_rate": f"{rate:.10g}",
            "follow_said": f"{reading.said}: {state.rate:.3g} to {rate:.3g} a second",
            "follow_us": str(state.now_ms * 1000),
        }
        try:
            # Whoever changed the room meanwhile, an operator or another process, comes first.
            await self._room.store.write(fields, version=state.version)
        except WrongState:
            return False
        return True


def next_rate(options: FollowOptions, rate: float, reading: Reading) -> float:
    """The rate after this look: down in proportion, up in small steps."""
    factor = SLOWER
    if reading.value is not None:
        share = reading.value / options.target
        factor = max(SLOWER, 1 / share) if share > 1 else FASTER if share < CALM else 1.0
    return min(options.most, max(options.least, rate * factor))


async def look(options: FollowOptions, *, patience_s: float = PATIENCE_S) -> Reading:
    """Time the page, or read the metric."""
    began = time.monotonic()
    try:
        # For the whole answer: a site that sends a byte now and then is not well.
        async with asyncio.timeout(patience_s):
            status, text = await _answer(options.url)
    except (OSError, ValueError):
        return Reading(None, "the site did not answer")
    if status >= 400:
        return Reading(None, f"the site answered {status}")
    if options.series:
        return _metric(text, options.series)
    took_s = time.monotonic() - began
    return Reading(took_s, f"the site took {took_s:.2g} s")


async def _answer(url: str) -> tuple[int, str]:
    # Only who follows a site needs an HTTP client; a room is also simulated without one.
    import httpx2

    # What lies behind the room is reached without the proxy that leads outside.
    client = httpx2.AsyncClient(trust_env=False, follow_redirects=True)
    asked = client.stream("GET", url, headers={"User-Agent": "waystation"})
    text = bytearray()
    try:
        async with client, asked as answer:
            async for part in answer.aiter_bytes():
                text += part
                if len(text) > LARGEST:
                    break
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise OSError(f"{url}: {error}") from error
    return answer.status_code, text[:LARGEST].decode("utf-8", "replace")


def _metric(text: str, series: str) -> Reading:
    for line in text.splitlines():
        name, _, value = line.strip().rpartition(" ")
        if name == series:
            try:
                found = float(value)
            except ValueError:
                break
            if math.isfinite(found):
                return Reading(max(0.0, found), f"{series} is {found:g}")
    return Reading(None, f"there was no {series}")
