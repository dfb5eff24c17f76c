"""Batches: what goes to a handler together, and how long it waits for more to come."""

import asyncio
import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest

from tests.core.runtime.harness import until_all, working
from tests.support.patience import LIMIT_S, until
from waystation.core.runtime.batches import Batches, Batching
from waystation.core.runtime.claim import Claim
from waystation.testing.memory import MemorySource

FOR_EVER_S = 100 * LIMIT_S


class Lines:
    """Batches, and beside them what a reader of their options expects: one plain list."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.now = chance, 0.0
        self.most = chance.randint(1, 8)
        self.least = chance.randint(1, self.most)
        self.wait_s = chance.choice((0, 1, 5))
        by = chance.choice((None, first_letter))
        self.by = by or any_letter
        rule = Batching(by=by, least=self.least, wait_s=self.wait_s)
        self.batches = Batches[str](self.most, rule, lambda: self.now)
        self.waiting: list[tuple[float, Claim[str]]] = []
        self.numbers = iter(range(10**6))

    def let_come(self) -> None:
        works = self.chance.choices("abcd", weights=(8, 4, 2, 1), k=self.chance.randint(1, 6))
        claims = [Claim(str(next(self.numbers)), work) for work in works]
        self.batches.extend(claims)
        self.waiting += [(self.now, claim) for claim in claims]

    def stop_one(self) -> None:
        if self.waiting:
            entry = self.chance.choice(self.waiting)
            self.batches.remove(entry[1])
            self.waiting.remove(entry)

    def take(self) -> None:
        may_grow = self.chance.random() < 0.8
        lines: dict[Any, list[tuple[float, Claim[str]]]] = defaultdict(list)
        for entry in self.waiting:
            lines[self.by(entry[1].work)].append(entry)
        now = self.now
        ripe = [
            line
            for line in lines.values()
            if not may_grow or len(line) >= self.least or now - line[0][0] >= self.wait_s
        ]
        if not ripe and self.waiting:
            oldest = min(at for at, _ in self.waiting)
            assert self.batches.next_in_s() == max(0, oldest + self.wait_s - now)

        taken = self.batches.take(may_grow=may_grow)

        possible = [[claim for _, claim in line[: self.most]] for line in ripe]
        assert taken in possible if ripe else not taken
        self.waiting = [entry for entry in self.waiting if entry[1] not in taken]


def any_letter(work: str) -> str:
    return ""


def first_letter(work: str) -> str:
    return work[0]


@pytest.mark.parametrize("seed", range(30))
def test_a_batch_is_the_oldest_of_one_key_that_are_enough_or_have_waited_for_long_enough(
    seed: int,
) -> None:
    lines = Lines(random.Random(seed))
    for _ in range(300):
        match lines.chance.random():
            case chance if chance < 0.3:
                lines.let_come()
            case chance if chance < 0.4:
                lines.stop_one()
            case chance if chance < 0.6:
                lines.now += lines.chance.choice((0.5, 1, 3))
            case _:
                lines.take()
        assert len(lines.batches) == len(lines.waiting)
        assert sorted(map(id, lines.batches)) == sorted(id(claim) for _, claim in lines.waiting)
        times = {claim: at for at, claim in lines.waiting}
        assert [times[claim] for claim in lines.batches] == sorted(times.values())


def test_a_line_that_is_always_full_keeps_no_other_from_its_turn() -> None:
    batches = Batches[str](2, Batching(by=first_letter))
    batches.extend([Claim("rare", "b")])
    served: list[str] = []
    for number in range(6):
        batches.extend([Claim(f"{number}.{nth}", "a") for nth in range(4)])
        served += [claim.work for claim in batches.take(may_grow=True)]

    assert served[0] == "b"
    batches.extend([Claim("rare", "b")])
    assert [batches.take(may_grow=True)[0].work for _ in range(2)] == ["a", "b"]


# In a worker


def batch_of_letters(**rule: Any) -> Batching[Any]:
    return Batching(by=first_letter, **rule)


@pytest.mark.parametrize("seed", range(8))
async def test_whatever_comes_when_it_ends_once_in_a_batch_of_its_key(seed: int) -> None:
    chance = random.Random(seed)
    source, batches = MemorySource(), list[list[str]]()
    most = chance.randint(2, 6)
    rule = batch_of_letters(least=chance.randint(1, most), wait_s=chance.choice((0, 0.005, 0.02)))

    async def handle(works: Sequence[str]) -> Sequence[Any]:
        batches.append(list(works))
        await asyncio.sleep(chance.choice((0, 0, 0.002)))
        return [ValueError("no") if chance.random() < 0.2 else work for work in works]

    async with working(source, handle, batch=most, batching=rule, concurrency=chance.randint(1, 3)):
        for number in range(100):
            source.add(f"{chance.choice('abcd')}{number}", attempts=50)
            if chance.random() < 0.3:
                await asyncio.sleep(chance.choice((0, 0.001)))
        await until_all(source)

    assert all(len({work[0] for work in batch}) == 1 and len(batch) <= most for batch in batches)
    attempts = sum(entry.attempts_made for entry in source.entries.values())
    assert sum(map(len, batches)) == attempts


async def test_a_batch_waits_until_it_has_its_least_and_no_longer() -> None:
    source, batches = MemorySource(), list[list[str]]()

    async def handle(works: Sequence[str]) -> Sequence[str]:
        batches.append(list(works))
        return works

    rule = batch_of_letters(least=3, wait_s=FOR_EVER_S)
    async with working(source, handle, batch=5, batching=rule) as worker:
        source.add("a1")
        source.add("b1")
        source.add("a2")
        await until(lambda: len(worker.held) == 3)
        assert not batches
        source.add("a3")
        await until(lambda: len(worker.held) == 1)

    assert batches == [["a1", "a2", "a3"]]


async def test_a_job_goes_with_what_is_there_when_it_has_waited_for_long_enough() -> None:
    source, batches = MemorySource(), list[list[str]]()

    async def handle(works: Sequence[str]) -> Sequence[str]:
        batches.append(list(works))
        return works

    source.add("a1")
    source.add("a2")
    rule = batch_of_letters(least=5, wait_s=0.01)
    async with asyncio.timeout(LIMIT_S), working(source, handle, batch=5, batching=rule):
        await until_all(source)

    assert batches == [["a1", "a2"]]


async def test_nothing_waits_for_what_the_worker_has_no_room_for() -> None:
    source = MemorySource()
    for number in range(12):
        source.add("abcdef"[number % 6])

    async def handle(works: Sequence[str]) -> Sequence[str]:
        return works

    rule = batch_of_letters(least=4, wait_s=FOR_EVER_S)
    async with working(source, handle, batch=4, batching=rule) as worker:
        # Three are left, which there is room for one more beside.
        await until(lambda: sum(e.state == "completed" for e in source.entries.values()) >= 9)
        assert len(worker.held) == 3


async def test_what_runs_leaves_no_room_either() -> None:
    source, end = MemorySource(), asyncio.Event()
    ids = [source.add(work) for work in ("a1", "a2", "b1", "c1")]

    async def handle(works: Sequence[str]) -> Sequence[str]:
        if works == ["a1", "a2"]:
            await end.wait()
        return works

    rule = batch_of_letters(least=2, wait_s=FOR_EVER_S)
    async with working(source, handle, batch=2, batching=rule, concurrency=2):
        await until(lambda: source.entries[ids[2]].state == "completed")
        end.set()


async def test_what_waits_for_its_batch_is_handed_back_when_the_worker_stops() -> None:
    source = MemorySource()
    ids = [source.add(work) for work in ("a1", "a2", "b1")]

    async def handle(works: Sequence[str]) -> Sequence[str]:
        return works

    rule = batch_of_letters(least=3, wait_s=FOR_EVER_S)
    async with working(source, handle, batch=3, batching=rule, concurrency=2) as worker:
        await until(lambda: len(worker.held) == 3)

    assert [source.entries[id].state for id in ids] == ["waiting"] * 3
    assert [source.entries[id].attempts_made for id in ids] == [0] * 3
    assert [claim.id for claim in (await source.settle((), claim=3)).claims] == ids


async def test_one_that_is_cancelled_or_lost_while_it_waits_leaves_the_others() -> None:
    source, batches = MemorySource(), list[list[str]]()

    async def handle(works: Sequence[str]) -> Sequence[str]:
        batches.append(list(works))
        return works

    rule = batch_of_letters(least=4, wait_s=FOR_EVER_S)
    async with working(source, handle, batch=8, batching=rule, lease=0.1, renew=0.005) as worker:
        cancelled, lost, _ = (source.add(f"a{number}") for number in range(3))
        await until(lambda: len(worker.held) == 3)
        assert worker.cancel(cancelled)
        source.entries[lost].token = "another's"
        await until(lambda: len(worker.held) == 1)
        for number in range(3, 6):
            source.add(f"a{number}")
        await until(lambda: batches)

    assert batches == [["a2", "a3", "a4", "a5"]]
    assert source.entries[cancelled].state == "failed"


async def test_leases_are_renewed_while_a_batch_fills() -> None:
    source = MemorySource(lease_s=0.1)
    id = source.add("a1")

    async def handle(works: Sequence[str]) -> Sequence[str]:
        return works

    rule = batch_of_letters(least=2, wait_s=FOR_EVER_S)
    async with working(source, handle, batch=2, batching=rule, lease=0.1, renew=0.01) as worker:
        await until(lambda: worker.held)
        claimed_until = source.entries[id].deadline
        await until(lambda: source.entries[id].deadline > claimed_until + 0.1)
        source.add("a2")
        await until_all(source)
