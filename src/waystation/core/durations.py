"""Durations as people write them, `1h30m` or `250ms`, instants, and numbers that others wrote.

The grammar is that of Go, with days and weeks.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, TypeAlias, TypedDict

import durationpy

from waystation.core.errors import InvalidOption

Duration: TypeAlias = timedelta | float
"""A `timedelta`, or a number of seconds."""


class DurationKeywords(TypedDict, total=False):
    """The keywords of a `timedelta`, for a duration that is written out: `sleep(days=3)`."""

    weeks: float
    days: float
    hours: float
    minutes: float
    seconds: float
    milliseconds: float
    microseconds: float


SECONDS = "seconds"
Seconds: TypeAlias = Annotated[float, SECONDS]
"""A number of seconds that a settings file writes as `30s`."""

_LONGEST = 2**53 / 1000
"""Seconds whose milliseconds every reader of the wires can count: numbers of Node and Lua are
floats."""

_LONGEST_MS = 10**15
"""Milliseconds that a timedelta can hold."""

# Checked before durationpy reads it, which skips over what it does not know ("1h, 2m") and
# takes "mm" for a month.
_GRAMMAR = re.compile(r"(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h|d|w))+")


def seconds(duration: Duration, name: str = "a duration", *, above: float | None = None) -> float:
    """The duration in seconds, not negative; with `above`, more than that many."""
    value = duration.total_seconds() if isinstance(duration, timedelta) else duration
    # bool is a number to Python, and NaN is neither above nor below anything.
    if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidOption(f"{name} must be a timedelta or seconds, at least 0, got {duration!r}")
    if _LONGEST < value < float("inf"):
        raise InvalidOption(f"{name} must be at most 285,000 years, got {duration!r}")
    if above is not None and not value > above:
        raise InvalidOption(f"{name} must be more than {above:g} seconds, got {value:g}")
    return value


def milliseconds(
    duration: Duration, name: str = "a duration", *, above: float | None = None
) -> int:
    """The duration in whole milliseconds, as the wires have it."""
    return _whole(seconds(duration, name, above=above) * 1000, duration, name)


def whole_seconds(duration: Duration, name: str = "a duration") -> int:
    """The duration in whole seconds."""
    return _whole(seconds(duration, name), duration, name)


def _whole(value: float, duration: Duration, name: str) -> int:
    if value == float("inf"):
        raise InvalidOption(f"{name} must be finite, got {duration!r}")
    return round(value)


def parse_duration(text: str) -> float:
    """Seconds, to the microsecond, from a duration such as `7d`, `1h30m` or `250ms`."""
    wanted = "a duration is a number with a unit (ms, s, m, h, d, w), such as 250ms, 1h30m or 7d"
    if text.startswith("-"):
        raise InvalidOption(f"a duration cannot be negative, got {text!r}")
    if not _GRAMMAR.fullmatch(text):
        raise InvalidOption(f"{wanted}; got {text!r}")
    try:
        return durationpy.from_str(text).total_seconds()
    except durationpy.DurationError:
        raise InvalidOption(f"{wanted}; {text!r} is out of range") from None


def format_duration(seconds: float) -> str:
    """Write seconds as the shortest duration that reads back the same, to the microsecond."""
    if seconds < 0:
        raise InvalidOption(f"a duration cannot be negative, got {seconds}")
    left = timedelta(seconds=seconds) // timedelta(microseconds=1)
    if left < 1_000_000:
        return _below_a_second(left)
    hours, left = divmod(left, 3_600_000_000)
    minutes, left = divmod(left, 60_000_000)
    parts = [(f"{hours}", "h"), (f"{minutes}", "m"), (_decimal(left, 6), "s")]
    return "".join(number + unit for number, unit in parts if number != "0")


def _below_a_second(micros: int) -> str:
    if micros == 0:
        return "0s"
    return f"{micros}us" if micros < 1000 else f"{_decimal(micros, 3)}ms"


def _decimal(value: int, places: int) -> str:
    whole, rest = divmod(value, 10**places)
    return f"{whole}.{rest:0{places}}".rstrip("0").rstrip(".") if rest else str(whole)


def instant(ms: float) -> datetime:
    """An aware datetime (UTC) from milliseconds since 1970."""
    return datetime.fromtimestamp(ms / 1000, UTC)


def possible_instant(ms: float | None) -> datetime | None:
    """As `instant`; None for none, and for a number that is none, which other clients may write."""
    try:
        return None if ms is None else instant(ms)
    except (OverflowError, ValueError, OSError):
        return None


def whole_number(text: bytes | str | None) -> int | None:
    """The number that digits say; None for others, and for one too large to be kept exact.

    Fifteen digits are what any reader of JSON or of a 64-bit column keeps.
    """
    return int(text) if text and len(text) <= 15 and text.isascii() and text.isdigit() else None


def possible_timedelta(ms: float) -> timedelta:
    """Milliseconds, which other clients may have written, as near as a timedelta comes to them."""
    return timedelta(milliseconds=max(min(ms, _LONGEST_MS), -_LONGEST_MS))
