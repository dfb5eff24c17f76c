from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waystation.core.backoff import HOUR_MS, LONGEST_MS, Backoff, Growth
from waystation.core.errors import InvalidOption

dice = Random(7)
delays = st.integers(min_value=1, max_value=LONGEST_MS)
attempts = st.integers(min_value=1, max_value=10_000)
backoffs = st.builds(
    Backoff,
    st.sampled_from(Growth),
    delays,
    jitter=st.floats(min_value=0, max_value=1),
    cap_ms=delays,
)


@given(delays, attempts)
def test_a_fixed_backoff_always_waits_the_same(delay: int, attempt: int) -> None:
    assert Backoff(Growth.FIXED, delay).pause_ms(attempt, dice) == delay


@given(delays, attempts)
def test_an_exponential_backoff_doubles_up_to_an_hour(delay: int, attempt: int) -> None:
    pause = Backoff(Growth.EXPONENTIAL, delay).pause_ms(attempt, dice)
    assert pause == min(delay * 2 ** (attempt - 1), HOUR_MS)


def test_from_one_second_the_hour_is_reached_at_the_thirteenth_attempt() -> None:
    backoff = Backoff(Growth.EXPONENTIAL, 1000)
    seconds = [backoff.pause_ms(attempt, dice) // 1000 for attempt in range(1, 15)]
    assert seconds == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600]


@given(delays, attempts, delays)
def test_a_linear_backoff_grows_by_its_delay_up_to_the_cap(
    delay: int, attempt: int, cap: int
) -> None:
    pause = Backoff(Growth.LINEAR, delay, cap_ms=cap).pause_ms(attempt, dice)
    assert pause == min(delay * attempt, cap)


@given(backoffs, attempts, st.integers())
def test_jitter_shortens_the_pause_by_its_part_at_most(
    backoff: Backoff, attempt: int, seed: int
) -> None:
    full = Backoff(backoff.growth, backoff.delay_ms, cap_ms=backoff.cap_ms).pause_ms(attempt, dice)
    pause = backoff.pause_ms(attempt, Random(seed))
    assert full * (1 - backoff.jitter) <= pause <= full


def test_full_jitter_spreads_over_the_whole_pause() -> None:
    backoff = Backoff(Growth.FIXED, 1000, jitter=1)
    pauses = {backoff.pause_ms(1, dice) for _ in range(20_000)}
    assert pauses == set(range(1000))


@given(backoffs, st.integers(min_value=1, max_value=9_999))
def test_without_jitter_a_later_attempt_never_waits_less(backoff: Backoff, attempt: int) -> None:
    steady = Backoff(backoff.growth, backoff.delay_ms, cap_ms=backoff.cap_ms)
    assert steady.pause_ms(attempt, dice) <= steady.pause_ms(attempt + 1, dice)


@pytest.mark.parametrize("delay", [0, -1, LONGEST_MS + 1])
def test_a_delay_outside_the_range_is_refused(delay: int) -> None:
    with pytest.raises(InvalidOption, match=f"backoff delay must be 1 to .* ms, got {delay}"):
        Backoff(Growth.FIXED, delay)


def test_a_cap_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidOption, match=r"backoff cap must be 1 to .* ms, got 0"):
        Backoff(Growth.LINEAR, 1000, cap_ms=0)


@pytest.mark.parametrize("jitter", [-0.1, 1.1, float("nan")])
def test_a_jitter_that_is_no_part_is_refused(jitter: float) -> None:
    with pytest.raises(InvalidOption, match="backoff jitter must be between 0 and 1"):
        Backoff(Growth.FIXED, 1000, jitter=jitter)


def test_attempts_are_counted_from_one() -> None:
    with pytest.raises(InvalidOption, match="counted from 1, got 0"):
        Backoff(Growth.FIXED, 1000).pause_ms(0, dice)
