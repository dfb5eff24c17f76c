"""Advice on workers: the fewest for the last half hour to come again, and for what waits now.

Jobs are expected to come as they came lately: as in the last half hour, or, so that a rush is seen
while it begins, as in the last minute alone. Whatever waits now comes first; what has waited for
longer than the target is late with any number of workers, and counts only as work to be done. Never
fewer are advised than what runs, and what waits needs to begin in the time that its target leaves
it: a backlog is worked off, however old it is.
"""

import math
from collections.abc import Sequence
from itertools import cycle, islice
from operator import attrgetter
from typing import NamedTuple

from waystation.pipeline.gold.staffing import LATE
from waystation.pipeline.simulation.replay import Setup, Work, fewest_that, replay

WINDOW_S = 1800.0
"""Seconds of arrivals that are expected to come again."""
LATELY_S = 60.0
"""The last of them, which are expected to go on."""
SOON = 0.25
"""The part of the target within which what is late has to begin."""
MOST = 3_000
"""Jobs in a replay; of more, every second or third is taken, for as many workers less."""


class Arrival(NamedTuple):
    """A job that became ready lately."""

    age_s: float
    """Seconds since it became ready."""
    run_s: float | None
    """How long it ran; None where that is not known yet."""


def workers_wanted(
    arrivals: Sequence[Arrival], waiting: Sequence[float], *, target_s: float, running: int = 0
) -> int | None:
    """The workers to have now; None where nothing came and ran within the window.

    `waiting` are the ages of jobs that nobody has claimed, also of those among the arrivals;
    `running` is how many run.
    """
    runs = [each.run_s for each in arrivals if each.run_s is not None]
    if not runs:
        return None
    # A worker takes several short jobs, one after the other, before the last one is late. What is
    # late or soon will be gets a part of the target: a whole worker each would be very many.
    run_s = sum(runs) / len(runs)
    places = sum(run_s / max(run_s, target_s - age, target_s * SOON) for age in waiting)
    return max(
        running + math.ceil(round(places, 6)),
        *(_fewest(arrivals, runs, waiting, span_s, target_s) for span_s in (WINDOW_S, LATELY_S)),
    )


def _fewest(
    arrivals: Sequence[Arrival],
    runs: Sequence[float],
    waiting: Sequence[float],
    span_s: float,
    target_s: float,
) -> int:
    """The fewest workers for what waits now and for arrivals as in so many seconds."""
    recent = [each for each in arrivals if each.age_s < span_s]
    recent.sort(key=attrgetter("age_s"), reverse=True)
    every = -(-max(len(recent), len(waiting)) // MOST) or 1
    usual = cycle(runs)
    there = sorted(waiting, reverse=True)[::every]
    backlog = list(zip((-age for age in there), islice(usual, len(there)), strict=True))
    coming = [
        (span_s - each.age_s, next(usual) if each.run_s is None else each.run_s)
        for each in recent[::every]
    ]
    work = _work([*backlog, *coming])
    hopeless = sum(age > target_s for age in there)
    allowed = hopeless + LATE * (len(work) - hopeless)

    def are_enough(workers: int) -> bool:
        waits = replay(work, Setup(workers=workers)).waits
        return sum(wait > target_s + 1e-6 for wait in waits) <= allowed

    return every * fewest_that(are_enough, most=max(1, len(work)))


def _work(jobs: Sequence[tuple[float, float]]) -> Work:
    many = len(jobs)
    return Work(
        ready=[ready for ready, _ in jobs],
        runs=[run for _, run in jobs],
        waits=[0.0] * many,
        priorities=[0] * many,
        follows=[-1] * many,
        pauses=[0.0] * many,
        firsts=list(range(many)),
        start=0.0,
    )
