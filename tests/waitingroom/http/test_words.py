"""What the pages say, and in which language."""

import re
from collections.abc import Mapping

import pytest

from waystation.waitingroom.pages import words
from waystation.waitingroom.pages.words import (
    choose,
    languages,
    rounded,
    seconds_text,
    wait_text,
)


@pytest.mark.parametrize(
    ("p10", "p90", "text"),
    [
        (None, None, "not known yet"),
        (1, 55, "less than a minute"),
        (20, 200, "4 min"),
        (700, 1500, "11 to 25 min"),
        (8520, 17_100, "2 to 5 hours"),
        (5400, 9000, "1.5 to 2.5 hours"),
    ],
)
def test_a_wait_is_as_exact_as_it_is_worth_being(
    p10: float | None, p90: float | None, text: str
) -> None:
    assert wait_text(languages()["en"], p10, p90) == text


def _slots(sentence: str) -> set[str]:
    return set(re.findall(r"\{\w*\}", sentence))


def _forms(words: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The forms of each text; the form of one that no number changes has no name."""
    found: dict[str, dict[str, str]] = {}
    for name, text in words.items():
        base, _, form = name.partition(".")
        found.setdefault(base, {})[form] = text
    return found


@pytest.mark.parametrize("lang", sorted(languages()))
def test_every_language_says_the_same_things(lang: str) -> None:
    english, known = _forms(languages()["en"]), _forms(languages()[lang])
    assert known.keys() == english.keys()
    for name, forms in known.items():
        wanted = _slots(next(iter(english[name].values())))
        for form, text in forms.items():
            assert text.strip() == text != "", name
            # The Arabic for one and for two says the number itself.
            if form not in ("one", "two") or lang != "ar":
                assert _slots(text) == wanted, (name, form)
        # Either no number changes it, or there is a form for every number.
        assert forms.keys() in ({""}, words.categories(lang)), name


@pytest.mark.parametrize("lang", sorted(languages()))
def test_a_language_with_plurals_uses_them(lang: str) -> None:
    forms = words.categories(lang)
    # Turkish counts without a plural, whatever the rules are for.
    uses = lang != "tr" and len(forms) > 1
    known = languages()[lang]
    assert {f"seconds.{form}" for form in forms} <= known.keys() if uses else "seconds" in known


@pytest.mark.parametrize(
    ("lang", "p90", "text"),
    [
        ("ru", 7 * 3600, "от 0 до 7 часов"),
        ("ru", 21 * 3600, "от 0 до 21 часа"),
        ("pl", 2.5 * 3600, "od 0 do 2.5 godziny"),
        ("cs", 3 * 3600, "0 až 3 hodiny"),
        ("cs", 5 * 3600, "0 až 5 hodin"),
        ("uk", 22 * 3600, "від 0 до 22 годин"),
        ("ar", 240, "4 دقائق"),
        ("ar", 120, "دقيقتان"),
        ("ar", 12 * 60, "12 دقيقة"),
        ("zh-Hans", 5 * 3600, "0 到 5 小时"),
    ],
)
def test_nouns_take_the_form_that_their_number_asks_for(lang: str, p90: float, text: str) -> None:
    assert wait_text(languages()[lang], 0, p90) == text


@pytest.mark.parametrize(
    ("lang", "seconds", "ends"),
    [
        ("en", 1, "in 1 second."),
        ("en", 2, "in 2 seconds."),
        ("pl", 1, "za 1 sekundę."),
        ("pl", 22, "za 22 sekundy."),
        ("pl", 12, "za 12 sekund."),
        ("ru", 41, "через 41 секунду."),
        ("uk", 3, "через 3 секунди."),
        ("cs", 60, "za 60 sekund."),
        ("ko", 5, "5초 후에 다시 시도해 주세요."),
    ],
)
def test_when_to_try_again_is_said_in_whole_sentences(lang: str, seconds: int, ends: str) -> None:
    for name in ("page_busy_text", "text_crowded_form"):
        assert seconds_text(languages()[lang], name, seconds).endswith(ends)


@pytest.mark.parametrize(
    ("asked", "accepted", "usual", "chosen"),
    [
        ("fr", "de", "en", "fr"),
        ("xx", "zz, de-AT;q=0.8, en", "en", "de"),
        ("", "zz", "pt", "pt"),
        ("", "", "xx", "en"),
        ("", "zh-TW,zh;q=0.9", "en", "zh-Hant"),
        ("", "zh-Hant-HK", "en", "zh-Hant"),
        ("", "zh-CN,en", "en", "zh-Hans"),
        ("", "zh", "en", "zh-Hans"),
        ("zh-Hant", "de", "en", "zh-Hant"),
    ],
)
def test_a_language_is_the_one_asked_for_or_understood(
    asked: str, accepted: str, usual: str, chosen: str
) -> None:
    assert choose(asked, accepted, usual) == chosen


def test_few_are_counted_and_many_are_rounded() -> None:
    assert [rounded(each) for each in (7, 99, 104, 996, 1234)] == [7, 99, 100, 1000, 1200]
