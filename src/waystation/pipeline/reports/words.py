"""Numbers, durations and verdicts as text."""

from collections.abc import Sequence
from typing import Any

from waystation.pipeline.deploys import Deploy, soon_before


def number(value: float | None) -> str:
    """A whole number with thousands separators."""
    return "-" if value is None else f"{value:,.0f}"


def duration(millis: float | None) -> str:
    """Milliseconds in a suitable unit."""
    if millis is None:
        return "-"
    if millis == 0:
        return "0"
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if millis >= size:
            return f"{millis / size:.3g} {unit}"
    return f"{millis:.3g} ms"


def first_seen(failure: dict[str, Any], deploys: Sequence[Deploy]) -> str:
    """When a failure began, where a deploy came soon before; else empty."""
    found = soon_before(failure["first_at"], deploys)
    if found is None:
        return ""
    later = duration((failure["first_at"] - found.deployed_at).total_seconds() * 1000)
    return f"first seen {later} after deploy {found.name}"


def more(shown: int, in_all: int | None) -> str:
    """How many are not shown; empty when all are."""
    return f"and {number(in_all - shown)} more" if in_all and in_all > shown else ""


def part(value: float | None) -> str:
    """A share in percent."""
    return "-" if value is None else f"{100 * value:.3g} %"


def instant(value: Any) -> str:
    """An instant in UTC, to the second."""
    return "-" if value is None else f"{value:%Y-%m-%d %H:%M:%S}"


def moment(value: Any) -> str:
    """An instant in UTC, short enough for a table."""
    return "-" if value is None else f"{value.day} {value:%b %H:%M}"


def consistency(failed: list[str], many: int) -> str:
    """The result of the consistency checks in a sentence."""
    if failed:
        return f"The tables do not agree: {'; '.join(failed)}."
    return f"The tables agree in {many} checks." if many else "No checks were made."


def verdict(clean: bool | None, *, lost: int = 0, duplicated: int = 0, unseen: int = 0) -> str:
    """The result of the ledger in a sentence."""
    if clean:
        return "All jobs are accounted for: none lost, none completed twice, no events missing."
    if clean is None:
        return "Without a snapshot of the queues the ledger cannot say whether jobs are lost."
    parts = [
        f"{number(lost)} lost" if lost else "none lost",
        f"{number(duplicated)} completed twice" if duplicated else "none completed twice",
        f"{number(unseen)} events trimmed before they were read" if unseen else "no events missing",
    ]
    return f"The ledger is not clean: {', '.join(parts)}."
