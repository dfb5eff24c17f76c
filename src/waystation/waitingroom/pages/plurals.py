"""Plural rules of the languages that the pages speak, as CLDR has them."""

from collections.abc import Callable

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
