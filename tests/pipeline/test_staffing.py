"""The advice on workers holds what it promises: played through with jobs as they might come."""

import heapq
import math
import random
from collections import Counter
from collections.abc import Callable

import pytest

from tests.pipeline import oracle
from waystation.pipeline.gold.staffing import LATE, Service, Slot, slot_seconds, workers
from waystation.pipeline.simulation.replay import Attempt, Setup, fewest_workers, recorded

JOBS = 3_600
HOUR_S = 3_600.0

COMING: dict[str, Callable[[random.Random], list[float]]] = {
    "evenly": lambda dice: [float(n) for n in range(JOBS)],
    "at random": lambda dice: [dice.uniform(0, HOUR_S) for _ in range(JOBS)],
    "in the first five minutes": lambda dice: [dice.uniform(0, 300) for _ in range(JOBS)],
    "at once": lambda dice: [0.0] * JOBS,
    "within a second": lambda dice: [dice.random() for _ in range(JOBS)],
    "300 every five minutes": lambda dice: [
        300 * (n // 300) + dice.uniform(0, 2) for n in range(JOBS)
    ],
    "a tenth at once": lambda dice: [
        1_800.0 if n % 10 == 0 else dice.uniform(0, HOUR_S) for n in range(JOBS)
    ],
    "more and more": lambda dice: [HOUR_S * math.sqrt(dice.random()) for _ in range(JOBS)],
    "seldom": lambda dice: [dice.uniform(0, HOUR_S) for _ in range(40)],
}
"""When jobs become ready within an hour."""


def at_random(dice: random.Random, mean: float) -> float:
    return dice.expovariate(1 / mean)


def all_alike(dice: random.Random, mean: float) -> float:
    return mean


def seldom_very_long(dice: random.Random, mean: float) -> float:
    spread = math.sqrt(math.log(5))
    return dice.lognormvariate(math.log(mean) - spread**2 / 2, spread)


LASTING = (at_random, all_alike, seldom_very_long)


def waits(ready: list[float], runs: list[float], places: int) -> list[float]:
    """How long each job really waits: first come, first served."""
    free = [0.0] * places
    found: list[float] = []
    for at, run in zip(ready, runs, strict=True):
        start = max(at, heapq.heappop(free))
        found.append(start - at)
        heapq.heappush(free, start + run)
    return found


def advised(ready: list[float], runs: list[float], target_s: float) -> int:
    mean = sum(runs) / len(runs)
    spread = sum((run - mean) ** 2 for run in runs) / len(runs) / mean**2
    slot_s = slot_seconds(target_s)
    slots = Counter(int(at // slot_s) for at in ready)
    given = [Slot(*each) for each in sorted(slots.items())]
    return workers(given, slot_s, Service(mean, spread), target_s)


@pytest.mark.parametrize("target_s", [0.2, 1.0, 10.0])
@pytest.mark.parametrize("mean_s", [0.05, 1.0, 20.0])
@pytest.mark.parametrize("lasting", LASTING, ids=lambda each: each.__name__)
@pytest.mark.parametrize("coming", COMING)
def test_with_so_many_workers_19_of_20_wait_no_longer_than_the_target(
    coming: str, lasting: Callable[[random.Random, float], float], mean_s: float, target_s: float
) -> None:
    dice = random.Random(7)
    ready = sorted(COMING[coming](dice))
    runs = [lasting(dice, mean_s) for _ in ready]
    needed = advised(ready, runs, target_s)
    late = sum(wait > target_s + 1e-9 for wait in waits(ready, runs, needed))
    assert late <= LATE * len(ready), f"{late} of {len(ready)} were late with {needed}"


@pytest.mark.parametrize(
    ("coming", "most"),
    [("evenly", 4), ("at random", 5), ("in the first five minutes", 17), ("at once", 1_800)],
)
def test_no_many_more_workers_are_asked_for_than_are_needed(coming: str, most: int) -> None:
    """3,600 jobs of a second each, and a target of a second."""
    dice = random.Random(7)
    ready = sorted(COMING[coming](dice))
    runs = [at_random(dice, 1.0) for _ in ready]
    assert advised(ready, runs, 1.0) <= most


@pytest.mark.parametrize("lasting", LASTING, ids=lambda each: each.__name__)
@pytest.mark.parametrize("coming", COMING)
def test_the_advice_is_close_to_the_best_in_hindsight(
    coming: str, lasting: Callable[[random.Random, float], float]
) -> None:
    """Best is the fewest with which a replay of the same jobs keeps to the target."""
    dice = random.Random(7)
    ready = sorted(COMING[coming](dice))
    runs = [lasting(dice, 1.0) for _ in ready]
    jobs = (
        Attempt(str(n), 1, at, 0.0, run)
        for n, (at, run) in enumerate(zip(ready, runs, strict=True))
    )
    best = fewest_workers(recorded(jobs), 1.0, Setup(workers=1))
    assert best is not None
    # It counts on chance, which jobs that come evenly leave nothing to.
    assert best <= advised(ready, runs, 1.0) <= 1.5 * best + 2


@pytest.mark.parametrize(("load", "mean_s"), [(0.3, 0.2), (4.7, 0.9), (25.0, 0.05)])
def test_a_steady_rate_asks_for_the_workers_of_the_textbook(load: float, mean_s: float) -> None:
    every_s = mean_s / load
    slots = Counter(int(n * every_s // 0.5) for n in range(int(HOUR_S / every_s)))
    given = [Slot(*each) for each in sorted(slots.items())]
    expected = oracle.erlang(load, mean_s * 1_000, 1_000, LATE / 2)
    assert workers(given, 0.5, Service(mean_s, 1.0), 1.0) == expected
