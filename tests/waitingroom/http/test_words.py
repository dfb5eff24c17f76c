"""What the pages say, and in which language."""

import pytest

from waystation.waitingroom.pages.words import choose, languages, rounded, wait_text


@pytest.mark.parametrize(
    ("p10", "p90", "told"),
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
    p10: float | None, p90: float | None, told: str
) -> None:
    assert wait_text(languages()["en"], p10, p90) == told


def test_every_language_says_the_same_things() -> None:
    english = languages()["en"]
    for words in languages().values():
        assert words.keys() == english.keys()
        for name, sentence in words.items():
            slots = {"{n}", "{from}", "{to}", "{time}", "{wait}"}
            assert {s for s in slots if s in sentence} == {s for s in slots if s in english[name]}


@pytest.mark.parametrize(
    ("asked", "accepted", "usual", "chosen"),
    [
        ("fr", "de", "en", "fr"),
        ("xx", "zz, de-AT;q=0.8, en", "en", "de"),
        ("", "zz", "pt", "pt"),
        ("", "", "xx", "en"),
    ],
)
def test_a_language_is_the_one_asked_for_or_understood(
    asked: str, accepted: str, usual: str, chosen: str
) -> None:
    assert choose(asked, accepted, usual) == chosen


def test_few_are_counted_and_many_are_rounded() -> None:
    assert [rounded(each) for each in (7, 99, 104, 996, 1234)] == [7, 99, 100, 1000, 1200]
