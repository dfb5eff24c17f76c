"""Statistics of a room by the hour, read from the counters that the scripts keep."""

import asyncio
from collections.abc import Mapping

import msgspec

from waystation.core.durations import instant
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


async def last(room: Room, hours: int = MOST_HOURS) -> list[Hour]:
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
