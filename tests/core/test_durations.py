import pytest
from hypothesis import given
from hypothesis import strategies as st

from waystation.core.durations import format_duration, milliseconds, parse_duration
from waystation.core.errors import InvalidOption

a_century_in_micros = 100 * 366 * 24 * 3600 * 10**6


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("250ms", 0.25),
        ("1.5s", 1.5),
        (".5s", 0.5),
        ("1h30m", 5400),
        ("2h45m30.5s", 9930.5),
        ("90m", 5400),
        ("10us", 0.00001),
        ("10µs", 0.00001),
        ("0s", 0),
        ("7d", 604_800),
        ("1w2d12h", 820_800),
    ],
)
def test_durations_are_read_as_go_reads_them_and_by_days_and_weeks(
    text: str, seconds: float
) -> None:
    assert parse_duration(text) == pytest.approx(seconds, abs=1e-9)


@pytest.mark.parametrize(
    "text",
    ["", " ", "5", "0", "1.5", "s", "5x", "1h!!2m", "1h 2m", "1e3s", "٣s", "1..5s", "5y", "3mm"],
)
def test_anything_else_is_refused_with_what_was_wanted(text: str) -> None:
    with pytest.raises(InvalidOption, match=r"a number with a unit .* got '"):
        parse_duration(text)


def test_negative_durations_are_refused() -> None:
    with pytest.raises(InvalidOption, match="cannot be negative, got '-5s'"):
        parse_duration("-5s")
    with pytest.raises(InvalidOption, match="cannot be negative"):
        format_duration(-0.5)


def test_durations_beyond_what_fits_are_refused() -> None:
    with pytest.raises(InvalidOption, match="out of range"):
        parse_duration("9" * 400 + "h")
    for more in (1e13, 1e300, 10**400):
        with pytest.raises(InvalidOption, match=r"delay must be at most 285,000 years, got 1"):
            milliseconds(more, "delay")
    assert milliseconds(2**53 // 1000) == 9_007_199_254_740_000


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.000_001, "1us"),
        (0.25, "250ms"),
        (0.0015, "1.5ms"),
        (59.123_457, "59.123457s"),
        (60, "1m"),
        (5400, "1h30m"),
        (3600.5, "1h0.5s"),
    ],
)
def test_durations_are_written_short(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(min_value=0, max_value=a_century_in_micros))
def test_what_is_written_reads_back_the_same(micros: int) -> None:
    seconds = micros / 10**6
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, abs=5e-7)
    assert format_duration(parse_duration(format_duration(seconds))) == format_duration(seconds)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        assert parse_duration(text) >= 0
    except InvalidOption:
        return
