"""Advice on workers from what came in the last half hour, and what waits now."""

import random

import pytest

from waystation.pipeline.simulation.advice import MOST, WINDOW_S, Arrival, workers_wanted
from waystation.pipeline.simulation.replay import Attempt, Setup, fewest_workers, recorded


def steadily(dice: random.Random, jobs: int, mean_s: float, span_s: float) -> list[Arrival]:
    """Jobs that came by chance within the last seconds."""
    return [Arrival(dice.uniform(0, span_s), dice.expovariate(1 / mean_s)) for _ in range(jobs)]


def best(arrivals: list[Arrival], target_s: float) -> int:
    """The fewest that would have been enough for them."""
    attempts = (
        Attempt(str(n), 1, WINDOW_S - each.age_s, 0.0, each.run_s or 0.0)
        for n, each in enumerate(arrivals)
    )
    found = fewest_workers(recorded(attempts), target_s, Setup(workers=1))
    assert found is not None
    return found


def test_a_steady_hour_wants_the_workers_that_would_have_been_enough_for_it() -> None:
    arrivals = steadily(random.Random(3), 2_000, 10.0, WINDOW_S)
    wanted = workers_wanted(arrivals, [], target_s=5.0)
    assert wanted is not None
    # The last two minutes may have been busier than the hour.
    assert best(arrivals, 5.0) <= wanted <= 1.5 * best(arrivals, 5.0)


def test_a_rush_is_seen_while_it_begins() -> None:
    dice = random.Random(4)
    usual = steadily(dice, 1_000, 2.0, WINDOW_S)
    rush = [*usual, *steadily(dice, 300, 2.0, 60.0)]
    before, now = (workers_wanted(each, [], target_s=1.0) for each in (usual, rush))
    assert before is not None
    assert now is not None
    assert now > 3 * before


def test_what_waits_now_wants_more_workers() -> None:
    arrivals = steadily(random.Random(5), 500, 2.0, WINDOW_S)
    wanted = [
        workers_wanted(arrivals, [age] * many, target_s=5.0)
        for many in (0, 50, 200)
        for age in (1.0, 60.0)
    ]
    assert None not in wanted
    few, _, some, _, many, _ = wanted
    assert (few or 0) < (some or 0) < (many or 0)


def test_jobs_of_the_same_instant_may_have_run_or_not() -> None:
    arrivals = [Arrival(1.5, run_s) for run_s in (0.0, None, 2.0, None)]
    assert workers_wanted(arrivals, [1.5, 1.5], target_s=5.0) == 1


def test_a_backlog_is_worked_off_however_late_it_is() -> None:
    """Never fewer than what runs and what waits, as far as a job takes longer than the target."""
    arrivals = steadily(random.Random(6), 500, 2.0, WINDOW_S)
    mean_s = sum(each.run_s or 0.0 for each in arrivals) / len(arrivals)
    late = [100_000.0] * 400
    assert workers_wanted(arrivals, late, running=7, target_s=1.0) == 407
    # Within a quarter of the target a worker takes 25 of them.
    many = workers_wanted(arrivals, late, running=7, target_s=100 * mean_s)
    assert many == 7 + 400 / 25
    soon = workers_wanted(arrivals, [60 * mean_s] * 400, running=7, target_s=100 * mean_s)
    assert soon == 7 + 400 / 40


def test_of_very_many_jobs_some_stand_for_all() -> None:
    arrivals = steadily(random.Random(7), 4 * MOST, 2.0, WINDOW_S)
    wanted = workers_wanted(arrivals, [], target_s=5.0)
    assert wanted is not None
    assert wanted == pytest.approx(best(arrivals, 5.0), rel=0.5)


def test_where_nothing_has_run_there_is_no_advice() -> None:
    assert workers_wanted([], [], target_s=1.0) is None
    assert workers_wanted([Arrival(3.0, None)], [3.0], target_s=1.0) is None
