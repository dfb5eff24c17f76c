"""When a worker asks for work: never too seldom, and hardly ever in vain."""

import random
from typing import NamedTuple

import pytest

from waystation.core.runtime.demand import Demand

CAPACITY = 8


class Call(NamedTuple):
    number: int
    room: int
    with_outcomes: bool


class Bench:
    """A source, a worker's demand, and calls that are served and answered in any order."""

    def __init__(self) -> None:
        self.demand = Demand(CAPACITY)
        self.waiting = 0
        self.running = 0
        self.sent: list[Call] = []
        self.served: list[tuple[Call, int]] = []

    def send(self, *, with_outcomes: bool = False) -> None:
        room = self.demand.take(3, with_outcomes=with_outcomes)
        if room or with_outcomes:
            self.sent.append(Call(self.demand.number_call(), room, with_outcomes))

    def serve(self, call: Call) -> None:
        self.sent.remove(call)
        claimed = min(call.room, self.waiting)
        self.waiting -= claimed
        self.served.append((call, claimed))

    def answer(self, served: tuple[Call, int]) -> None:
        self.served.remove(served)
        call, claimed = served
        self.running += claimed
        self.demand.answered(call.number, call.room, claimed, with_outcomes=call.with_outcomes)

    def end_one(self) -> None:
        self.running -= 1
        self.demand.room += 1

    @property
    def under_way(self) -> list[Call]:
        return [*self.sent, *(call for call, _ in self.served)]


def step(bench: Bench, dice: random.Random) -> None:
    """Something happens."""
    match dice.randrange(6):
        case 0:
            bench.waiting += dice.randint(1, 5)
            bench.demand.look_again()
        case 1 if bench.sent:
            bench.serve(dice.choice(bench.sent))
        case 2 if bench.served:
            bench.answer(dice.choice(bench.served))
        case 3 if bench.running:
            bench.end_one()
            bench.send(with_outcomes=True)
        case _:
            bench.send()


@pytest.mark.parametrize("seed", range(50))
def test_no_work_is_left_while_there_is_room(seed: int) -> None:
    dice, bench = random.Random(seed), Bench()
    for _ in range(200):
        step(bench, dice)
        asked_for = sum(call.room for call in bench.under_way)
        assert bench.demand.room + asked_for + bench.running == CAPACITY
        assert sum(not call.with_outcomes for call in bench.under_way) <= 1
    # Nothing new comes; the worker goes on for as long as it wants to ask.
    while bench.running:
        bench.end_one()
    while bench.sent or bench.served or bench.demand.is_worth_a_call:
        bench.send()
        for call in list(bench.sent):
            bench.serve(call)
        for served in list(bench.served):
            bench.answer(served)
    assert bench.waiting == 0 or bench.demand.room == 0


def test_one_answer_of_nothing_ends_the_asking_until_there_is_a_sign() -> None:
    bench = Bench()
    bench.send()
    bench.serve(bench.sent[0])
    bench.answer(bench.served[0])
    assert bench.demand.is_quiet
    bench.send()
    assert bench.sent == []
    bench.demand.look_again()
    bench.send()
    assert len(bench.sent) == 1


def test_an_answer_that_is_older_than_a_sign_is_not_believed() -> None:
    bench = Bench()
    bench.send()
    bench.serve(bench.sent[0])
    bench.waiting += 1
    bench.demand.look_again()
    bench.answer(bench.served[0])
    assert bench.demand.is_worth_a_call


def test_whoever_became_smaller_asks_for_nothing_until_enough_has_ended() -> None:
    demand = Demand(2)
    assert demand.take(10, with_outcomes=False) == 2
    demand.answered(demand.number_call(), 2, 2, with_outcomes=False)
    demand.room -= 1
    assert demand.take(10, with_outcomes=True) == 0
    demand.room += 2
    assert demand.take(10, with_outcomes=True) == 1
