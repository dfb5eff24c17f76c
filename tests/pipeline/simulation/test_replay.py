"""A replay does what workers do: compared with clocks that tick, and with the textbook."""

import math
import random

import pytest

from waystation.pipeline.simulation.replay import (
    Attempt,
    Order,
    Outcome,
    Rate,
    Setup,
    Work,
    fewest_workers,
    recorded,
    replay,
)


def work_of(*jobs: tuple[float, float], priorities: tuple[int, ...] = ()) -> Work:
    """Jobs by when they are ready and how long they run."""
    given = priorities or (0,) * len(jobs)
    return recorded(
        Attempt(str(number), 1, ready, 0.0, run, priority)
        for number, ((ready, run), priority) in enumerate(zip(jobs, given, strict=True))
    )


def random_work(dice: random.Random) -> Work:
    """A few jobs with whole seconds, some of them tried again."""
    rows: list[Attempt] = []
    for job in range(dice.randint(1, 25)):
        ready, priority = float(dice.randrange(20)), dice.randrange(3)
        for number in range(1, dice.choice((2, 2, 3, 4))):
            wait, run = float(dice.randrange(3)), float(dice.randint(1, 6))
            rows.append(Attempt(f"{job:02}", number, ready, wait, run, priority))
            ready += wait + run + dice.randrange(4)
    return recorded(rows)


def ticking(work: Work, setup: Setup) -> list[float]:
    """The waits of the same work, by a clock that ticks once a second."""
    waits, since = [-1.0] * len(work), list(work.ready)
    pending = {at: work.ready[at] for at in work.firsts}
    running: dict[int, float] = {}
    queue: list[int] = []
    window_ends, started = -1.0, 0
    now = 0.0
    while -1.0 in waits:
        for at in sorted(at for at, end in running.items() if end == now):
            del running[at]
            if work.follows[at] >= 0:
                pending[work.follows[at]] = now + work.pauses[at]
        # The first attempts come before the others, each kind in its order.
        firsts = [at for at in work.firsts if pending.get(at) == now]
        others = sorted(at for at, due in pending.items() if due == now and at not in firsts)
        for at in (*firsts, *others):
            del pending[at]
            since[at] = now
            queue.append(at)
        while queue and len(running) < setup.workers:
            if setup.rate:
                if now >= window_ends:
                    window_ends, started = now + setup.rate.seconds, 0
                if started == setup.rate.most:
                    break
                started += 1
            index = {
                Order.FIFO: 0,
                Order.LIFO: -1,
                Order.PRIORITY: min(range(len(queue)), key=lambda n: work.priorities[queue[n]]),
            }[setup.order]
            at = queue.pop(index)
            waits[at], running[at] = now - since[at], now + work.runs[at]
        now += 1
    return waits


@pytest.mark.parametrize("rate", [None, Rate(1, 1.0), Rate(2, 3.0), Rate(5, 7.0)], ids=str)
@pytest.mark.parametrize("order", Order)
def test_a_replay_gives_the_waits_of_a_clock_that_ticks(order: Order, rate: Rate | None) -> None:
    dice = random.Random(1_887)
    for _ in range(60):
        work = random_work(dice)
        setup = Setup(workers=dice.randint(1, 5), order=order, rate=rate)
        assert replay(work, setup).waits == ticking(work, setup)


def test_jobs_without_retries_wait_alike_on_the_short_way_and_on_the_long_one() -> None:
    dice = random.Random(5)
    jobs = [(dice.uniform(0, 100), dice.expovariate(1)) for _ in range(500)]
    work = work_of(*jobs)
    for workers in (1, 3, 7):
        short = replay(work, Setup(workers=workers))
        # All have the same priority, so that the order is that of their arrival.
        long = replay(work, Setup(workers=workers, order=Order.PRIORITY))
        assert short.waits == pytest.approx(long.waits)


def test_the_order_decides_who_waits() -> None:
    jobs = ((0.0, 10.0), (1.0, 1.0), (2.0, 1.0), (3.0, 1.0))

    def waits(order: Order) -> list[float]:
        return replay(work_of(*jobs, priorities=(0, 2, 1, 1)), Setup(workers=1, order=order)).waits

    assert waits(Order.FIFO) == [0, 9, 9, 9]
    assert waits(Order.LIFO) == [0, 11, 9, 7]
    assert waits(Order.PRIORITY) == [0, 11, 8, 8]


def test_a_retry_waits_for_the_end_of_the_attempt_before_it() -> None:
    """With one worker the first attempt ends 5 s later, and so its retry comes 5 s later, too."""
    work = recorded(
        [
            Attempt("a", 1, 0.0, 0.0, 5.0),
            Attempt("b", 1, 0.0, 0.0, 2.0),
            Attempt("b", 2, 12.0, 0.0, 1.0),
        ]
    )
    assert replay(work, Setup(workers=2)).ready == [0, 0, 12]
    found = replay(work, Setup(workers=1))
    assert (found.ready, found.waits) == ([0, 0, 17], [0, 5, 0])


def test_an_id_that_is_used_again_is_another_job() -> None:
    work = recorded([Attempt("a", 1, 0.0, 0.0, 5.0), Attempt("a", 1, 9.0, 0.0, 5.0)])
    assert work.firsts == [0, 1]


def test_a_rate_lets_so_many_start_in_each_window() -> None:
    work = work_of(*[(0.0, 0.001)] * 6)
    found = replay(work, Setup(workers=6, rate=Rate(2, 10.0)))
    assert found.waits == pytest.approx([0, 0, 10, 10, 20, 20])


def test_waits_are_those_of_the_textbook() -> None:
    """One worker, random arrivals and run times: the formula of M/M/1 gives the percentile."""
    dice = random.Random(11)
    load, now = 0.6, 0.0
    jobs: list[tuple[float, float]] = []
    for _ in range(60_000):
        now += dice.expovariate(load)
        jobs.append((now, dice.expovariate(1.0)))
    found = replay(work_of(*jobs), Setup(workers=1))
    assert found.percentile(0.95) == pytest.approx(math.log(load / 0.05) / (1 - load), rel=0.08)
    assert found.busy == pytest.approx(load, rel=0.03)
    assert found.worker_hours == pytest.approx(now / 3600, rel=0.01)


@pytest.mark.parametrize("target_s", [0.5, 5.0])
def test_the_fewest_workers_are_enough_and_one_less_is_not(target_s: float) -> None:
    dice = random.Random(3)
    work = work_of(*((60 * (n // 50) + dice.random(), dice.expovariate(1)) for n in range(600)))

    def late(workers: int) -> float:
        return replay(work, Setup(workers=workers)).late(target_s)

    found = fewest_workers(work, target_s, Setup(workers=1))
    assert found is not None
    assert late(found) <= 0.05 < late(found - 1)


def test_no_number_of_workers_helps_against_a_rate() -> None:
    work = work_of(*[(0.0, 0.1)] * 100)
    assert fewest_workers(work, 1.0, Setup(workers=1, rate=Rate(1, 1.0))) is None
    assert fewest_workers(work, 99.0, Setup(workers=1, rate=Rate(1, 1.0))) == 1


def test_nothing_makes_no_waits() -> None:
    found: Outcome = replay(recorded([]), Setup(workers=3))
    assert (found.percentile(0.95), found.late(1.0), found.busy) == (0, 0, 0)


def test_the_most_at_once_is_counted_from_what_was_recorded() -> None:
    work = recorded(
        [
            Attempt("a", 1, 0.0, 1.0, 4.0),
            Attempt("b", 1, 0.0, 2.0, 4.0),
            Attempt("c", 1, 0.0, 5.0, 4.0),
        ]
    )
    assert (work.most_at_once, work.span_s) == (2, 9.0)
