"""The drain forecast says how sure it is, and it is as sure as it says."""

import random

import pytest

from waystation.pipeline.gold.forecast import (
    BAND,
    LEAST_CHECKS,
    LEAST_SLOTS,
    Band,
    Slot,
    backlog,
    calibrated,
    forecast,
    guess,
    misses,
)

RUNS = 40


def a_run(dice: random.Random) -> list[Slot]:
    """A rush and its end: arrivals by chance, workers that come and go and work unevenly."""
    series: list[Slot] = []
    waiting, workers = 0, dice.randint(4, 12)
    for slot in range(400):
        rush = 60 if slot < 60 else 10
        came = sum(dice.random() < 0.5 for _ in range(2 * rush))
        if dice.random() < 0.02:
            workers = max(2, workers + dice.choice((-2, -1, 1, 2)))
        able = sum(dice.randint(1, 5) for _ in range(workers))
        ended = min(waiting, able)
        waiting += came - ended
        series.append(Slot(came, ended))
    return series


def test_a_steady_queue_is_forecast_to_the_slot() -> None:
    series = [Slot(1000, 10)] + [Slot(0, 10)] * 98
    assert backlog(series)[-1] == 10
    assert guess(series[:50], 49) == 50
    assert all(miss == pytest.approx(1.0) for miss in misses(series))


def test_the_band_holds_what_it_says_on_runs_that_were_kept_aside(
    capsys: pytest.CaptureFixture[str],
) -> None:
    dice = random.Random(17)
    learnt = [miss for _ in range(RUNS) for miss in misses(a_run(dice))]
    band = calibrated(learnt)
    assert band is not None
    aside = [miss for _ in range(RUNS) for miss in misses(a_run(dice))]
    covered = sum(band.low <= miss <= band.high for miss in aside) / len(aside)
    with capsys.disabled():
        print(f"\n  drain forecast: {BAND:.0%} promised, {covered:.1%} of {len(aside):,} held")
    assert covered == pytest.approx(BAND, abs=0.05)
    assert band.coverage == pytest.approx(BAND, abs=0.1)


def a_batch(dice: random.Random) -> list[Slot]:
    """The first backlog that a queue has: jobs that all come at once."""
    workers, waiting = dice.randint(3, 10), dice.randint(500, 4_000)
    series = [Slot(0, 0)] * 5 + [Slot(waiting, 0)]
    while waiting:
        ended = min(waiting, sum(dice.randint(1, 5) for _ in range(workers)))
        waiting -= ended
        series.append(Slot(0, ended))
    return series


def test_the_first_backlog_is_forecast_by_the_part_of_it_that_is_done(
    capsys: pytest.CaptureFixture[str],
) -> None:
    dice = random.Random(23)
    forecasts = held = 0
    for _ in range(10 * RUNS):
        series = a_batch(dice)
        at = len(series) // 2
        if at < LEAST_CHECKS + LEAST_SLOTS + 6:
            continue
        assert len(misses(series[: at + 1])) < LEAST_CHECKS
        found = forecast(series[: at + 1], seconds=1)
        assert found is not None
        forecasts += 1
        held += found.low_s <= len(series) - 1 - at <= found.high_s
    with capsys.disabled():
        print(
            f"\n  first backlogs: {BAND:.0%} promised, {held / forecasts:.1%} of {forecasts:,} held"
        )
    assert forecasts > RUNS
    assert held / forecasts == pytest.approx(BAND, abs=0.07)


def test_small_backlogs_of_before_do_not_widen_the_band_of_a_large_one() -> None:
    before = [Slot(3, 0), Slot(0, 3)] * 100
    steady = [Slot(4_000, 0), *[Slot(0, 10)] * 100]
    found = forecast([*before, *steady], seconds=10)
    assert found is not None
    assert found.high_s < 4 * found.low_s
    assert found.low_s <= 3_000 * 10 / 10 <= found.high_s


def test_a_backlog_that_has_only_begun_is_not_forecast() -> None:
    assert forecast(a_batch(random.Random(1))[:20], seconds=1) is None


def test_too_little_history_makes_no_forecast() -> None:
    assert forecast([Slot(5, 1)] * 10, seconds=10) is None
    assert forecast([], seconds=10) is None


def test_nothing_is_promised_while_nothing_ends() -> None:
    assert forecast([Slot(5, 0)] * 30, seconds=10, band=Band(0.5, 2.0, 0.9, 100)) is None
