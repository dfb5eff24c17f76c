"""The waits that three crowds are shown, and how long they really waited."""

import random

import pytest

from benchmarks.room.crowds import changed_s, crowds, judged, run
from benchmarks.room.simulator import Crowd
from benchmarks.room.simulator.people import Person
from waystation.waitingroom.estimates.estimate import Wait


def person(called_s: float, *ranges: tuple[float, float, float, float]) -> Person:
    """Somebody who joined at 0 and was shown these ranges: when, p10, p50 and p90."""
    each = Person(0, Crowd(), random.Random(1))
    each.joined_s, each.called_s = 0.0, called_s
    each.estimates = [(at, Wait(p10=p10, p50=p50, p90=p90)) for at, p10, p50, p90 in ranges]
    return each


def test_a_range_that_an_operator_has_overturned_gives_way_to_the_next() -> None:
    ranges = (0.0, 90.0, 100.0, 110.0), (60.0, 90.0, 100.0, 120.0)
    seen = judged([person(165, *ranges)], 50)
    assert (seen.inside, seen.standing) == (0, 1)
    assert judged([person(165, *ranges)], 90).standing == 0


def test_the_first_range_counts_from_when_it_was_told() -> None:
    seen = judged([person(160, (60, 90, 110, 120)), person(300, (0, 100, 150, 200))])
    assert (seen.people, seen.inside) == (2, 0.5)
    assert seen.error == pytest.approx((0.1 + 0.5) / 2)
    assert judged([person(300)]).people == 0


@pytest.mark.parametrize(
    ("latest", "broken", "twice"),
    [
        ((400, 390, 380), 0, 0),
        ((400, 450, 455), 0, 0),
        ((400, 470, 500), 1, 0),
        ((400, 470, 700), 1, 1),
        ((400, 300, 350), 0, 0),
        ((400, 300, 365, 440), 1, 0),
    ],
)
def test_a_latest_time_that_moves_back_is_a_broken_promise(
    latest: tuple[float, ...], broken: int, twice: int
) -> None:
    ranges = [(at * 15.0, 0.0, 100.0, each - at * 15) for at, each in enumerate(latest)]
    seen = judged([person(400, *ranges)])
    assert (seen.broken, seen.broken_twice) == (broken, twice)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", crowds())
async def test_three_crowds_can_rely_on_what_they_are_told(name: str) -> None:
    """F38: an hour each, of which nothing is known beforehand."""
    crowd = crowds()[name]
    seen = judged(await run(crowd), changed_s(crowd))
    assert seen.people > 2000
    assert seen.error <= 0.15
    # One hour is a few waits one after the other, so the share of one is not that of all.
    assert 0.65 <= seen.standing <= 0.95
    assert seen.broken_twice == 0
