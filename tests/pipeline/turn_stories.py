"""Made-up histories of queues in which tenants take turns, or should."""

import heapq
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.pipeline import stories
from tests.pipeline.stories import START, StoryEvent

START_MS = int(START.timestamp() * 1000)
WEIGHTS = {"": 0.5, "acme": 2, "bell": 1, "cole": 1, "dora": 3}
"""Tenants; "" are the jobs without a group, and `cole` has a limit."""
PATHS = {
    "": ("",),
    "acme": ("acme", "acme/ada", "acme/x%2Fy"),
    "bell": ("bell",),
    "cole": ("cole",),
    "dora": ("dora",),
}
PAUSE_MS, RESUME_MS = 3_000_000, 4_200_000
"""Nothing of `bell` starts meanwhile."""
SLOTS = 3


class Job(NamedTuple):
    """A job that waits."""

    id: str
    path: str
    cost: float

    @property
    def tenant(self) -> str:
        return self.path.partition("/")[0]


class Line:
    """A queue whose jobs are started in turn, by the clock of its tenants."""

    def __init__(self, dice: random.Random, *, is_fair: bool) -> None:
        self._dice, self._is_fair = dice, is_fair
        self._waiting: dict[str, list[Job]] = {}
        self._tags: dict[str, float] = {}
        self._time = 0.0
        self._came: dict[str, list[int]] = {}
        self._arrivals = 0

    def push(self, job: Job) -> None:
        mine = self._waiting.setdefault(job.tenant, [])
        if not mine:
            self._tags[job.tenant] = max(self._tags.get(job.tenant, 0), self._time)
        mine.append(job)
        self._came.setdefault(job.tenant, []).append(self._arrivals)
        self._arrivals += 1

    def pull(self, at_ms: int) -> Job | None:
        if not _may("bell", at_ms):
            # It saves up nothing meanwhile.
            self._tags["bell"] = max(self._tags.get("bell", 0), self._time)
        may = [tenant for tenant, mine in self._waiting.items() if mine and _may(tenant, at_ms)]
        if not may:
            return None
        by = self._tags if self._is_fair else {each: self._came[each][0] for each in may}
        tenant = min(may, key=by.__getitem__)
        self._came[tenant].pop(0)
        job = self._waiting[tenant].pop(0)
        self._time = max(self._time, self._tags[tenant])
        self.charge(tenant, job.cost)
        return job

    def charge(self, tenant: str, cost: float) -> None:
        self._tags[tenant] += cost / WEIGHTS[tenant]


def _may(tenant: str, at_ms: int) -> bool:
    return tenant != "bell" or not PAUSE_MS <= at_ms < RESUME_MS


def in_turns(
    dice: random.Random, jobs: int, *, queue: str = "llm", is_fair: bool = True, charges: float = 0
) -> list[StoryEvent]:
    """The events of jobs that come in floods, over some hours, in the order of the stream."""
    return list(_played(dice, jobs, queue, Line(dice, is_fair=is_fair), charges))


def events_of_turns() -> list[dict[str, Any]]:
    """Rows of the events table about jobs of tenants who take turns."""
    rows = stories.rows(in_turns(random.Random(35), 150, charges=0.1))
    return [{**row, "fields": list(row["fields"].items())} for row in rows]


def _played(
    dice: random.Random, jobs: int, queue: str, line: Line, charges: float
) -> Iterator[StoryEvent]:
    def said(event: str, job: Job, **fields: str) -> StoryEvent:
        worker = dice.choice(["ada", "ben"]) if event == "active" else None
        return StoryEvent(at_ms, queue, job.id, event, worker=worker, fields=fields)

    coming: list[tuple[int, int, Callable[[], Iterator[StoryEvent]]]] = []
    numbers = iter(range(10_000_000))

    def later(ms: int, what: Callable[[], Iterator[StoryEvent]]) -> None:
        heapq.heappush(coming, (ms, next(numbers), what))

    running = 0

    def comes(job: Job, event: str = "added") -> Iterator[StoryEvent]:
        group = {"group": job.path, "cost": f"{job.cost:g}"} if job.path else {}
        if event == "added":
            yield said("added", job, name="answer", **group)
        yield said("waiting", job)
        line.push(job)
        yield from starts()

    def starts() -> Iterator[StoryEvent]:
        nonlocal running
        while running < SLOTS and (job := line.pull(at_ms)):
            running += 1
            free = str(START_MS + RESUME_MS) if job.tenant == "bell" and at_ms >= RESUME_MS else "0"
            turn = {"group": job.path} if job.path else {}
            turn |= {"cost": f"{job.cost:g}", "weight": f"{WEIGHTS[job.tenant]:g}"}
            turn |= {} if job.tenant == "cole" else {"free": free}
            yield said("active", job, **turn)
            later(at_ms + 200 + int(job.cost * dice.randrange(1_500, 4_500)), lambda j=job: ends(j))

    def ends(job: Job) -> Iterator[StoryEvent]:
        nonlocal running
        running -= 1
        if dice.random() < charges:
            more = dice.choice((-0.25, 1.5))
            line.charge(job.tenant, more)
            weight, cost = f"{WEIGHTS[job.tenant]:g}", f"{job.cost + more:g}"
            job = job._replace(cost=job.cost + more)
            group = job.path
            yield said("charged", job, group=group, cost=cost, more=f"{more:g}", weight=weight)
        if dice.random() < 0.1:
            yield said("retry", job, delay="0", failedReason="TimeoutError: no answer")
            yield from comes(job, "waiting")
            return
        yield said("completed", job)
        yield from starts()

    for number in range(jobs):
        tenant = dice.choice(list(WEIGHTS))
        path = dice.choice(PATHS[tenant])
        job = Job(str(number), path, 1 if not path else dice.choice((0.5, 1, 4)))
        later(
            dice.choice((0, 600_000, 2_900_000, 5_400_000)) + dice.randrange(60_000),
            lambda j=job: comes(j),
        )
    later(RESUME_MS, starts)
    while coming:
        at_ms, _, what = heapq.heappop(coming)
        yield from what()
