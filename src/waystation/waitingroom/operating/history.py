"""History of a room by the hour and by the minute; the pipeline has what is older."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import NamedTuple, Self

import msgspec

from waystation.core.durations import instant
from waystation.waitingroom.redis import scripts
from waystation.waitingroom.redis.keys import hour_of
from waystation.waitingroom.redis.store import HOUR_MS
from waystation.waitingroom.room import Room

MOST_HOURS = 24
"""How long an hour is remembered here; the pipeline remembers for ever."""
_WAIT = "wait_le_"
_TOTALS = (
    "enqueued", "admitted", "claimed", "completed", "missed", "expired", "left", "refused",
    "passed",
)  # fmt: skip


class Hour(msgspec.Struct, kw_only=True):
    """One hour of a room."""

    hour: str
    """As the statistics name it, for example 2024010112."""
    enqueued: int = 0
    admitted: int = 0
    claimed: int = 0
    completed: int = 0
    missed: int = 0
    """Turns that nobody took."""
    expired: int = 0
    """People who fell silent."""
    left: int = 0
    refused: int = 0
    passed: int = 0
    """People who came in without waiting."""
    peak_queue_size: int = 0
    estimates: int = 0
    """Visitors whose estimate was kept."""
    estimates_within: float | None = None
    """The share of them who came in within the range of their estimate."""
    estimate_error: float | None = None
    """How far off the middle of it was, by the wait, on average."""
    wait_mean_s: int | None = None
    wait_p50_s: int | None = None
    wait_p90_s: int | None = None
    wait_p99_s: int | None = None


async def last_hours(room: Room, hours: int = MOST_HOURS) -> list[Hour]:
    """The hours up to this one, the earliest first."""
    now_ms = (await room.state()).now_ms
    times = [now_ms - back * HOUR_MS for back in range(hours - 1, -1, -1)]
    kept = await asyncio.gather(*(room.statistics(instant(at)) for at in times))
    return [_read(hour_of(at), each) for at, each in zip(times, kept, strict=True)]


def percentile(kept: Mapping[str, int], share: float) -> int | None:
    """The wait that this share of the people did not exceed, to a fifth; None without people."""
    buckets = sorted(
        (int(name.removeprefix(_WAIT)), people)
        for name, people in kept.items()
        if name.startswith(_WAIT)
    )
    wanted = share * sum(people for _, people in buckets)
    seen = 0
    for most, people in buckets:
        seen += people
        if seen >= wanted:
            return most
    return None


def _share(kept: Mapping[str, int], name: str, by: int = 1) -> float | None:
    many = kept.get("estimate_n", 0)
    return round(kept.get(name, 0) / many / by, 4) if many else None


def _read(hour: str, kept: Mapping[str, int]) -> Hour:
    return Hour(
        hour=hour,
        **{name: kept.get(f"total_{name}", 0) for name in _TOTALS},
        peak_queue_size=kept.get("peak_queue_size", 0),
        estimates=kept.get("estimate_n", 0),
        estimates_within=_share(kept, "estimate_in"),
        estimate_error=_share(kept, "estimate_off", 100),
        wait_mean_s=kept.get("avg_wait_time"),
        wait_p50_s=percentile(kept, 0.5),
        wait_p90_s=percentile(kept, 0.9),
        wait_p99_s=percentile(kept, 0.99),
    )


MOST_MINUTES = 1440
"""A day, which is how long the hours are kept that the minutes are part of."""
_COUNTED = (
    "total_enqueued", "total_admitted", "total_missed", "total_claimed", "total_passed",
    "estimate_n", "estimate_in", "estimate_off",
)  # fmt: skip
"""The counters of the hour that a sample holds, in its order."""


class Minute(msgspec.Struct, kw_only=True):
    """One minute of a room: how it stood at its end, and what happened in it."""

    at: str
    """When it ended."""
    waiting: int
    """People in line."""
    prequeued: int
    """People who waited for the opening."""
    called: int
    """People whose turn it was, not in yet."""
    inside: int
    arrivals: float
    admissions: float
    """People called in."""
    no_shows: float
    """Turns that nobody took."""
    claims: float
    """People called who came in."""
    passed: float
    """People who came in without waiting."""
    estimates: float
    """Waits that were held against their estimates."""
    estimates_within: float | None = None
    """The share of them that was within the range of its estimate."""
    estimate_error: float | None = None
    """How far off the middle of it was, by the wait, on average."""


class _Sample(NamedTuple):
    minute: int
    hour: str
    waiting: int
    prequeued: int
    called: int
    inside: int
    counted: tuple[int, ...]

    @classmethod
    def read(cls, raw: bytes) -> Self:
        minute, hour, *rest = raw.decode().split(":")
        waiting, prequeued, called, inside, *counted = (int(each) for each in rest)
        return cls(int(minute), hour, waiting, prequeued, called, inside, tuple(counted))


class History:
    """The minutes of one room."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._store = room.store

    async def note(self) -> bool:
        """Note this minute's numbers; False when somebody has done so already."""
        hour = hour_of(self._store.now_ms())
        keys = self._store.keys_now()
        client = await self._store.client()
        return await scripts.sample(client, keys, hour=hour, now=self._store.now())

    async def last(self, minutes: int = MOST_MINUTES) -> list[Minute]:
        """The minutes up to now, the earliest first; those in which nobody looked are left out."""
        raw: Sequence[bytes] = await self._store.ask("LRANGE", self._store.keys.minutes, 0, minutes)
        samples = [_Sample.read(each) for each in reversed(raw)]
        totals = {hour: await self._totals(hour) for hour in {each.hour for each in samples}}
        return [_minute(before, after, totals[before.hour]) for before, after in pairwise(samples)]

    async def _totals(self, hour: str) -> tuple[int, ...]:
        """What an hour has counted in all, or so far."""
        kept = await self._room.statistics(datetime.strptime(hour, "%Y%m%d%H").replace(tzinfo=UTC))
        return tuple(kept.get(name, 0) for name in _COUNTED)


def _minute(before: _Sample, after: _Sample, totals: tuple[int, ...]) -> Minute:
    # A new hour counts from nothing, and what the old one counted last belongs to this minute, too.
    same = before.hour == after.hour
    happened = [
        max(0, now - first) if same else max(0, total - first) + now
        for first, total, now in zip(before.counted, totals, after.counted, strict=True)
    ]
    many = max(1, after.minute - before.minute)
    arrivals, admissions, no_shows, claims, passed, estimates = (
        round(each / many, 2) for each in happened[:6]
    )
    judged, within, off = happened[5:]
    return Minute(
        at=datetime.fromtimestamp(after.minute * 60, UTC).isoformat(),
        waiting=after.waiting,
        prequeued=after.prequeued,
        called=after.called,
        inside=after.inside,
        arrivals=arrivals,
        admissions=admissions,
        no_shows=no_shows,
        claims=claims,
        passed=passed,
        estimates=estimates,
        estimates_within=round(within / judged, 4) if judged else None,
        estimate_error=round(off / judged / 100, 4) if judged else None,
    )
