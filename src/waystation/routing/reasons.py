"""Why a job is where it is: what it waits for, who has it, or how it ended."""

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import msgspec

from waystation.core import codec


class Why(StrEnum):
    """The kinds of reasons."""

    READY = "ready"
    """It is in line, and a live worker can take it."""
    UNMATCHED = "unmatched"
    """No live worker has what it asks for."""
    PAUSED = "paused"
    LIMITED = "limited"
    """As many of its type run, or were started this minute, as may."""
    LOCKED = "locked"
    """Somebody holds its lock while it is in line."""
    HELD = "held"
    """It waits for other jobs."""
    DELAYED = "delayed"
    RETRYING = "retrying"
    """An attempt has failed, and the next one waits for its time."""
    SCHEDULED = "scheduled"
    ACTIVE = "active"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"
    """Another client says that it failed."""
    DEAD = "dead"


class Reason(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One reason, for programs and for people."""

    why: Why
    text: str
    until_ms: float | None = None
    """Milliseconds since the epoch; when it ends by itself, where that is known."""


class Obstacles(msgspec.Struct, frozen=True, kw_only=True):
    """What keeps waiting jobs with one set of needs from running."""

    workers: int
    nearest: str
    missing: tuple[str, ...]
    reasons: tuple[Reason, ...]


def obstacles(needs: Sequence[Any], raw: Sequence[Any], *, anybody: bool) -> Obstacles:
    """Read what the scripts found; `anybody` tells whether a worker is alive at all."""
    workers, lacks, nearest, paused, limited, until, most, running, a_minute, started = raw
    missing: tuple[str, ...] = ()
    reasons: list[Reason] = []
    if paused:
        reasons.append(Reason(why=Why.PAUSED, text=f"type {needs[0]} is paused"))
    if limited and until:
        text = f"{int(started):,} of {int(a_minute):,} were started this minute"
        until_ms = float(until)
        text = f"limited until {instant(until_ms)}: {text}"
        reasons.append(Reason(why=Why.LIMITED, text=text, until_ms=until_ms))
    elif limited and most:
        text = f"limited: {int(running):,} of {int(most):,} run"
        reasons.append(Reason(why=Why.LIMITED, text=text))
    if not workers:
        missing = _missing(needs, lacks) if anybody else ("no worker is alive",)
        reasons.append(Reason(why=Why.UNMATCHED, text=_unmatched(nearest.decode(), missing)))
    return Obstacles(
        workers=workers, nearest=nearest.decode(), missing=missing, reasons=tuple(reasons)
    )


def instant(ms: float) -> str:
    """An instant as people read it; one that cannot be is never."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError):
        return "never"


def _unmatched(nearest: str, missing: tuple[str, ...]) -> str:
    if not nearest:
        return f"nobody fits: {'; '.join(missing)}"
    return f"nobody fits; worker {nearest} is the nearest, missing: {'; '.join(missing)}"


_SENTENCES = {
    "type": "no handler for {}",
    "server": "server {} is not here",
    "stack": "stack {}",
    "capabilities": "capability {}",
    "region": "region {}",
    "avoid": "another server than {}",
}


_CATEGORIES = ("stack", "capabilities", "region")


def _missing(needs: Sequence[Any], lacks: bytes) -> tuple[str, ...]:
    comma = ", " if needs[1] == "all" else " or "
    said = [
        (category, _SENTENCES[category].format(comma.join(values)))
        for category, values in codec.decode(lacks, list[tuple[str, list[str]]])
    ]
    if len(needs) < 8 or needs[7].get("match") != "category-any":
        return tuple(words for _, words in said)
    # Any one of the categories would do, the rest is needed besides.
    either = " or ".join(words for category, words in said if category in _CATEGORIES)
    others = [words for category, words in said if category not in _CATEGORIES]
    return tuple(others + ([either] if either else []))
