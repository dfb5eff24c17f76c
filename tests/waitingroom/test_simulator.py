"""The crowd of numbers: it must be able to condemn a room, and acquits ours."""

import random

import pytest

from benchmarks.room.simulator import Crowd, Mood, Simulation, Verdict, measures
from benchmarks.room.simulator.people import Person
from tests.support.size import size
from waystation.core.errors import InvalidOption
from waystation.core.store import embedded
from waystation.core.store.connection import connect
from waystation.waitingroom.visitor import Lane

SMALL = Crowd(visitors=size(750, full=1500), hours=size(0.125, full=0.25), patience_s=300)


async def judged(crowd: Crowd) -> tuple[Simulation, dict[str, Verdict]]:
    with embedded.ephemeral() as server:
        async with await connect(server.socket_url) as store:
            simulation = Simulation(store, crowd)
            verdicts = await simulation.run()
    return simulation, {each.name: each for each in verdicts}


@pytest.mark.slow
@pytest.mark.full
async def test_a_crowd_finds_the_room_safe_and_fair() -> None:
    """F16, F38: no broken promise, nobody overtaken, and every lane gets its share."""
    simulation, verdicts = await judged(SMALL)
    assert simulation.broken_promises == 0
    assert sum(simulation.outcomes().values()) == SMALL.visitors
    assert simulation.outcomes()[Mood.DONE] > 100
    for name, each in verdicts.items():
        if "overtaken" in name or "share" in name or "broken" in name:
            assert each.holds, each
    error = verdicts["error of the estimated wait"]
    assert float(error.seen.rstrip("%")) < 30


@pytest.mark.parametrize(
    ("order", "crossed"), [([], 0), ([1, 2, 3], 0), ([2, 1], 1), ([3, 2, 1], 3), ([1, 3, 2, 4], 1)]
)
def test_people_who_were_overtaken_are_counted(order: list[int], crossed: int) -> None:
    assert measures.inversions(order) == crossed


def test_inversions_are_counted_as_by_hand() -> None:
    dice = random.Random(5)
    order = dice.sample(range(500), 200)
    by_hand = sum(order[i] > order[j] for i in range(200) for j in range(i + 1, 200))
    assert measures.inversions(order) == by_hand


def person(number: int, *, estimate: tuple[float, float, float], waited: float) -> Person:
    each = Person(number, SMALL, random.Random(number))
    each.lane = Lane.NORMAL
    each.joined_s, each.called_s = 0.0, waited
    each.p10, each.p50, each.p90 = estimate
    return each


def test_an_unfair_room_an_uneven_share_and_a_wrong_rate_are_condemned() -> None:
    crossed = [person(2, estimate=(1, 1, 1), waited=50), person(1, estimate=(1, 1, 1), waited=50)]
    assert not all(each.holds for each in measures.fairness(crossed))
    assert not all(each.holds for each in measures.shares([25, 25, 25, 25], (1, 2, 4, 8)))
    assert not measures.exactness(SMALL, came_in=1, seconds=100).holds


def test_estimates_that_promise_too_much_are_condemned() -> None:
    liars = [person(each, estimate=(10, 20, 30), waited=100) for each in range(10)]
    seen = measures.honesty(liars)
    assert (seen.people, seen.covered) == (10, 0.0)
    assert seen.error == pytest.approx(0.8)
    assert not all(each.holds for each in measures.estimates(seen, seen))


def test_people_who_wait_together_are_one_witness() -> None:
    """However many they are, ten groups that share their luck say no more than ten people."""
    luck = [True, True, False, True, True, True, False, True, True, True]

    def in_groups(size: int) -> measures.Honesty:
        people = [
            person(each, estimate=(90, 100, 110) if held else (10, 20, 30), waited=100)
            for each, held in enumerate(held for held in luck for _ in range(size))
        ]
        for number, each in enumerate(people):
            each.joined_s = number // size * measures.TOGETHER_S
            each.called_s += each.joined_s
        return measures.honesty(people)

    few, many = in_groups(1), in_groups(100)
    assert (few.covered, many.covered) == (0.8, 0.8)
    assert [few.doubt, many.doubt] == pytest.approx([0.4 / 3, 0.4 / 3])


@pytest.mark.parametrize("changes", [{"visitors": 0}, {"hours": 0}, {"no_show": 1.0}])
def test_a_crowd_that_cannot_be_is_refused(changes: dict[str, float]) -> None:
    with pytest.raises(InvalidOption):
        Crowd(**changes)  # pyright: ignore[reportArgumentType]
