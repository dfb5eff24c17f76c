"""Texts of the pages in every language."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TypeAlias

import msgspec

Words: TypeAlias = Mapping[str, str]
FALLBACK = "en"
EXACT_BELOW = 100
"""People who are counted; more are rounded, and then one's own place says nothing more."""
HOURS_FROM = 120
"""Minutes from which a wait is told in hours, to the half."""


@cache
def languages() -> dict[str, dict[str, str]]:
    """The words by language."""
    raw = files(__package__ or "").joinpath("words.json").read_bytes()
    return msgspec.json.decode(raw, type=dict[str, dict[str, str]])


def choose(asked: str, accepted: str, usual: str = FALLBACK) -> str:
    """The language that was asked for, else the first that the browser accepts, else the usual."""
    known = languages()
    if asked in known:
        return asked
    for each in accepted.split(",")[:20]:
        tag = each.partition(";")[0].strip().lower().partition("-")[0]
        if tag in known:
            return tag
    return usual if usual in known else FALLBACK


def wait_text(words: Words, p10: float | None, p90: float | None) -> str:
    """A wait as people say it."""
    if p10 is None or p90 is None:
        return words["unknown"]
    first, last = int(p10 // 60), -int(-p90 // 60)
    if last <= 1:
        return words["soon"]
    if last > HOURS_FROM:
        halves = (int(p10 // 1800), -int(-p90 // 1800))
        return _between(words["hours"], *(f"{each / 2:g}" for each in halves))
    if first < 1 or first == last:
        return words["minutes"].replace("{n}", f"{last}")
    return _between(words["range"], f"{first}", f"{last}")


def _between(sentence: str, first: str, last: str) -> str:
    return sentence.replace("{from}", first).replace("{to}", last)


def rounded(count: int) -> int:
    """A number of people, as exact as it is worth being."""
    if count < EXACT_BELOW:
        return count
    return round(count, -1) if count < 1000 else round(count, -2)
