"""Texts of the pages in every language."""

import unicodedata
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import TypeAlias

import msgspec

Words: TypeAlias = Mapping[str, str]
FALLBACK = "en"
EXACT_BELOW = 100
"""People who are counted; more are rounded, and then one's own place says nothing more."""
HOURS_FROM = 120
"""Minutes from which a wait is shown in hours, to the half."""
_File: TypeAlias = dict[str, str | dict[str, str]]
_TRADITIONAL = ("zh-hant", "zh-tw", "zh-hk", "zh-mo")


@cache
def languages() -> dict[str, dict[str, str]]:
    """The words by language; a form of a word that depends on a number is `word.category`."""
    folder = files(__package__ or "").joinpath("languages")
    found = {
        tag: {"_tag": tag, **_flat(msgspec.json.decode(each.read_bytes(), type=_File))}
        for each in folder.iterdir()
        if (tag := each.name.removesuffix(".json")) != each.name
    }
    return dict(sorted(found.items(), key=lambda each: _alphabetical(each[1]["_name"])))


def _flat(words: Mapping[str, str | dict[str, str]]) -> dict[str, str]:
    flat = dict[str, str]()
    for name, text in words.items():
        if isinstance(text, str):
            flat[name] = text
        else:
            flat |= {f"{name}.{form}": each for form, each in text.items()}
    return flat


def _alphabetical(name: str) -> str:
    return unicodedata.normalize("NFKD", name).casefold()


def choose(asked: str, accepted: str, usual: str = FALLBACK) -> str:
    """The language that was asked for, else the first that the browser accepts, else the usual."""
    return asked if asked in languages() else _accepted(accepted[:200], usual)


@lru_cache(maxsize=1024)
def _accepted(accepted: str, usual: str) -> str:
    known = languages()
    for each in accepted.split(","):
        tag = each.partition(";")[0].strip().lower()
        spoken = tag.partition("-")[0]
        if spoken == "zh":
            return "zh-Hant" if tag.startswith(_TRADITIONAL) else "zh-Hans"
        if spoken in known:
            return spoken
    return usual if usual in known else FALLBACK


def counted(words: Words, name: str, number: float) -> str:
    """A text in the form that stands with a number."""
    form = category(words["_tag"], number)
    return words.get(f"{name}.{form}") or words[name]


def wait_text(words: Words, p10: float | None, p90: float | None) -> str:
    """A wait as people say it."""
    if p10 is None or p90 is None:
        return words["unknown"]
    first, last = int(p10 // 60), -int(-p90 // 60)
    if last <= 1:
        return words["soon"]
    if last > HOURS_FROM:
        since, until = int(p10 // 1800) / 2, -int(-p90 // 1800) / 2
        return _between(counted(words, "hours", until), f"{since:g}", f"{until:g}")
    if first < 1 or first == last:
        return counted(words, "minutes", last).replace("{n}", f"{last}")
    return _between(counted(words, "range", last), f"{first}", f"{last}")


def seconds_text(words: Words, name: str, seconds: int) -> str:
    """A sentence that says in how many seconds to try again."""
    phrase = counted(words, "seconds", seconds).replace("{n}", f"{seconds}")
    return words[name].replace("{n}", phrase)


def _between(sentence: str, first: str, last: str) -> str:
    return sentence.replace("{from}", first).replace("{to}", last)


def rounded(count: int) -> int:
    """A number of people, as exact as it is worth being."""
    if count < EXACT_BELOW:
        return count
    return round(count, -1) if count < 1000 else round(count, -2)


Rule = Callable[[int, bool], str]
"""The category of a number, given its whole part and whether there is a fraction."""


def category(lang: str, number: float) -> str:
    """The form of a noun that stands with a number: zero, one, two, few, many or other."""
    whole = int(number)
    return _RULES.get(lang, _one_or_other)(whole, number != whole)


def categories(lang: str) -> set[str]:
    """The forms that a language needs for the numbers that the pages tell."""
    numbers = [*range(0, 201), *(half + 0.5 for half in range(20))]
    return {category(lang, number) for number in numbers}


def _one_or_other(whole: int, fraction: bool) -> str:
    return "one" if whole == 1 and not fraction else "other"


def _same(whole: int, fraction: bool) -> str:
    return "other"


def _below_two(whole: int, fraction: bool) -> str:
    return "one" if whole in (0, 1) else "other"


def _danish(whole: int, fraction: bool) -> str:
    return "one" if whole == 1 or (whole == 0 and fraction) else "other"


def _polish(whole: int, fraction: bool) -> str:
    if fraction:
        return "other"
    if whole == 1:
        return "one"
    return "few" if _ends_in_few(whole) else "many"


def _czech(whole: int, fraction: bool) -> str:
    if fraction:
        return "many"
    if whole == 1:
        return "one"
    return "few" if 2 <= whole <= 4 else "other"


def _east_slavic(whole: int, fraction: bool) -> str:
    if fraction:
        return "other"
    if whole % 10 == 1 and whole % 100 != 11:
        return "one"
    return "few" if _ends_in_few(whole) else "many"


def _ends_in_few(whole: int) -> bool:
    return 2 <= whole % 10 <= 4 and not 12 <= whole % 100 <= 14


def _arabic(whole: int, fraction: bool) -> str:
    if fraction:
        return "other"
    if whole < 3:
        return ("zero", "one", "two")[whole]
    if 3 <= whole % 100 <= 10:
        return "few"
    return "many" if whole % 100 >= 11 else "other"


_RULES: dict[str, Rule] = {
    "ar": _arabic,
    "cs": _czech,
    "da": _danish,
    "fr": _below_two,
    "id": _same,
    "ja": _same,
    "ko": _same,
    "pl": _polish,
    "pt": _below_two,
    "ru": _east_slavic,
    "uk": _east_slavic,
    "zh-Hans": _same,
    "zh-Hant": _same,
}
