"""Cron: when a pattern is due next, so that Node and we name the same instants.

A pattern has five fields, or six with the seconds first. Where it names hours, wall time counts: in
the spring night what falls into the gap runs later by the gap, in the autumn night what falls into
the hour that comes twice runs in the first. Where it says every hour, it runs every hour.
"""

import os
from datetime import datetime, tzinfo
from functools import lru_cache
from pathlib import Path
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from waystation.core.durations import possible_instant
from waystation.core.errors import InvalidOption

_NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@hourly": "0 * * * *",
    "@minutely": "* * * * *",
    "@secondly": "* * * * * *",
    "@weekdays": "0 0 * * 1-5",
    "@weekends": "0 0 * * 0,6",
}
_LOCAL_TIME = Path("/etc/localtime")
_DAY, _WEEKDAY = 3, 5
_LONGEST_SEARCH = 10_000


def check(pattern: str, tz: str | None) -> None:
    """Refuse a pattern or a time zone that cannot be read."""
    zone(tz)
    # BullMQ takes missing fields for stars in front: monthly, where somebody wanted daily. A lone
    # star is every minute whatever is missing.
    if pattern.strip() != "*" and len(_NICKNAMES.get(pattern.strip(), pattern).split()) < 5:
        raise InvalidOption(f"a pattern has five fields, or six with the seconds; got {pattern!r}")
    if next_after(pattern, tz, 0) is None:
        raise InvalidOption(f"the pattern {pattern!r} is never due")


def next_after(pattern: str, tz: str | None, after_ms: int) -> int | None:
    """The first millisecond after this one at which the pattern is due; None when it never is."""
    fields, place = _fields(pattern), zone(tz)
    if possible_instant(after_ms) is None:
        return None
    try:
        # Runs fall on whole seconds, so the fraction does not matter to what comes next.
        after = datetime.fromtimestamp(after_ms // 1000, place)
        if _is_every_hour(fields):
            return _millis(next(CronSim(fields, after)))
        walls = CronSim(fields, after.replace(tzinfo=None))
        for _ in range(_LONGEST_SEARCH):
            # The first of two equal wall times; a wall time in a gap is later by the gap.
            due = _millis(next(walls).replace(tzinfo=place, fold=0))
            if due > after_ms:
                return due
    except (StopIteration, OverflowError):
        # There is none, or the calendar ends before it.
        pass
    return None


@lru_cache(256)
def zone(tz: str | None) -> tzinfo:
    """The time zone of this name; without a name the machine's own, as Node has it."""
    if tz is None:
        return _machine_zone()
    try:
        return ZoneInfo(tz)
    except (ValueError, OSError, KeyError):
        raise InvalidOption(f"tz must be a time zone such as Europe/Berlin, got {tz!r}") from None


def _machine_zone() -> tzinfo:
    if name := os.environ.get("TZ", "").removeprefix(":"):
        return zone(name)
    if not _LOCAL_TIME.exists():
        return ZoneInfo("UTC")
    with _LOCAL_TIME.open("rb") as rules:
        return ZoneInfo.from_file(rules)


@lru_cache(1024)
def _fields(pattern: str) -> str:
    """The pattern as cronsim reads it: six fields, with a star only where it means anything."""
    parts = _NICKNAMES.get(pattern.strip(), pattern).upper().split()
    if not 1 <= len(parts) <= 6:
        raise InvalidOption(f"a pattern has five or six fields, got {pattern!r}")
    parts = ["0", *["*"] * (5 - len(parts)), *parts] if len(parts) < 6 else parts
    parts[_DAY] = _plain(parts[_DAY], "1-31")
    parts[_WEEKDAY] = _plain(parts[_WEEKDAY], "0-6")
    try:
        # What BullMQ's other workers could not read is not for a schedule that they share.
        if "W" in parts[_DAY] or {"#", ","} <= set(parts[_WEEKDAY]):
            raise CronSimError("Bad day")
        CronSim(" ".join(parts), datetime(2000, 1, 1))
    except (CronSimError, AssertionError, ValueError) as error:
        # Python makes no number of thousands of digits.
        raise InvalidOption(f"the pattern {pattern!r} cannot be read: {error}") from None
    return " ".join(parts)


def _plain(field: str, whole: str) -> str:
    if field == "?":
        return "*"
    # A day field that begins with a star would have to match together with the other one; in
    # BullMQ that holds for a lone star only, else it is enough that one of them does.
    return whole + field[1:] if field.startswith("*/") else field


@lru_cache(1024)
def _is_every_hour(fields: str) -> bool:
    return len(CronSim(fields, datetime(2000, 1, 1)).hours) == 24


def _millis(instant: datetime) -> int:
    return int(instant.timestamp()) * 1000
