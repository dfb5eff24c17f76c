"""Numbers as people say them."""

from typing import Any


def number(value: float | None) -> str:
    """A whole number with its thousands apart."""
    return "-" if value is None else f"{value:,.0f}"


def duration(millis: float | None) -> str:
    """Milliseconds in the unit that suits them."""
    if millis is None:
        return "-"
    if millis == 0:
        return "0"
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if millis >= size:
            return f"{millis / size:.3g} {unit}"
    return f"{millis:.3g} ms"


def part(value: float | None) -> str:
    """A part of a whole in percent."""
    return "-" if value is None else f"{100 * value:.3g} %"


def instant(value: Any) -> str:
    """An instant in UTC, to the second."""
    return "-" if value is None else f"{value:%Y-%m-%d %H:%M:%S}"


def moment(value: Any) -> str:
    """An instant in UTC, short enough for a table."""
    return "-" if value is None else f"{value.day} {value:%b %H:%M}"


def sums(ill: list[str], many: int) -> str:
    """Whether the tables add up, in a sentence."""
    if ill:
        return f"The tables do not add up: {'; '.join(ill)}."
    return f"The tables add up: {many} counts were made twice." if many else "Nothing was counted."


def verdict(clean: bool | None, *, lost: int = 0, twice: int = 0, unseen: int = 0) -> str:
    """What the ledger says, in a sentence."""
    if clean:
        return "Everything is accounted for: nothing lost, nothing done twice, no gap."
    if clean is None:
        return "Nobody has looked at the queues, so the ledger cannot say whether all is there."
    said = [
        f"{number(lost)} lost" if lost else "nothing lost",
        f"{number(twice)} done twice" if twice else "nothing done twice",
        f"{number(unseen)} events gone before they could be read" if unseen else "no gap",
    ]
    return f"The ledger is not clean: {', '.join(said)}."
