"""Who was served how much, and who may start: what is true of groups, as a test has seen it."""

import math
from collections import defaultdict
from typing import Any, NamedTuple

from waystation.bullmq.limits import Limit

UNGROUPED = ""
WEIGHTS = {
    UNGROUPED: 1.0,
    "acme": 1.0,
    "bell": 2.0,
    "bell/1": 1.0,
    "bell/2": 3.0,
    "cord": 0.5,
    "dune": 1.5,
    "dune/1": 1.0,
    "dune/2": 1.0,
    "dune/3": 0.3,
}
COSTS = {UNGROUPED: (1,), "acme": (1, 1, 2), "cord": (20,), "dune/1": (0.1, 7)}
"""Of the others any: a mistake of one unit shows between cheap ones and those that are not."""
Turn = tuple[str, str]
"""What holds one that takes turns, and its path: in a parent its own jobs have that of it."""


def ways(path: str) -> list[Turn]:
    """The turns that a job of a path takes, the last in what holds all."""
    if path == UNGROUPED:
        return [(UNGROUPED, UNGROUPED)]
    parent, _, _ = path.rpartition("/")
    if parent:
        return [(parent, path), (UNGROUPED, parent)]
    is_parent = any(other.startswith(f"{path}/") for other in WEIGHTS)
    return [*([(path, path)] if is_parent else []), (UNGROUPED, path)]


def paths_of(path: str) -> list[str]:
    """A group and its parent, of which limits hold for its jobs."""
    parent, _, _ = path.rpartition("/")
    return [each for each in (path, parent) if each]


class Turns:
    """What each was served over its weight, and how far others got ahead of one that was busy.

    That is asked of every stretch of time in which it was busy, and holds whatever the others do:
    so two that are both busy differ by no more, and whoever comes and goes gains nothing by it.
    """

    def __init__(self, weights: dict[str, float]) -> None:
        self.weights = weights
        self.served = dict.fromkeys(weights, 0.0)
        self.largest = dict.fromkeys(weights, 0.0)
        self.worst = 0.0
        # How far each other was ahead of a busy one when that was least.
        self._lowest: dict[str, dict[str, float]] = {}

    def begin(self, busy: str) -> None:
        if busy not in self._lowest:
            own = self.served[busy]
            self._lowest[busy] = {other: served - own for other, served in self.served.items()}

    def end(self, busy: str) -> None:
        self._lowest.pop(busy, None)

    def serve(self, one: str, cost: float) -> None:
        price = cost / self.weights[one]
        served = self.served[one] = self.served[one] + price
        self.largest[one] = max(self.largest[one], price)
        for busy, lowest in self._lowest.items():
            if busy != one:
                ahead = served - self.served[busy] - lowest[one]
                bound = self.largest[busy] + self.largest[one]
                self.worst = max(self.worst, ahead / bound)
        if (own := self._lowest.get(one)) is not None:
            for other in own:
                own[other] = min(own[other], self.served[other] - served)


class Fairness:
    """The turns of all groups, in each other and at the top."""

    def __init__(self) -> None:
        weights: dict[str, dict[str, float]] = defaultdict(dict)
        for path in WEIGHTS:
            for holder, one in ways(path):
                # Jobs of a parent itself have no weight in it but 1.
                weights[holder][one] = 1.0 if holder == one else WEIGHTS[one]
        weights[UNGROUPED][UNGROUPED] = WEIGHTS[UNGROUPED]
        self.turns = {holder: Turns(each) for holder, each in weights.items()}
        self.waiting: dict[Turn, int] = defaultdict(int)
        self.held: set[Turn] = set()
        self._ids: dict[str, set[str]] = defaultdict(set)

    @property
    def worst(self) -> float:
        """How far somebody got ahead, in largest costs of both; 1 is allowed."""
        return max(each.worst for each in self.turns.values())

    def ids(self, path: str) -> set[str]:
        return self._ids[path]

    def wait(self, path: str, id: str) -> None:
        assert id not in self._ids[path]
        self._ids[path].add(id)
        for turn in ways(path):
            self.waiting[turn] += 1
            self._look(turn)

    def leave(self, path: str, id: str) -> None:
        self._ids[path].remove(id)
        for turn in ways(path):
            self.waiting[turn] -= 1
            self._look(turn)

    def start(self, path: str, id: str, cost: float) -> None:
        for holder, one in ways(path):
            # It was busy up to this start, which still counts.
            self.turns[holder].serve(one, cost)
        self.leave(path, id)

    def hold(self, held: set[Turn]) -> None:
        """Those that are at a limit are not busy, though jobs of them wait."""
        changed, self.held = self.held ^ held, held
        for turn in changed:
            self._look(turn)

    def _look(self, turn: Turn) -> None:
        holder, one = turn
        if self.waiting[turn] and turn not in self.held:
            self.turns[holder].begin(one)
        else:
            self.turns[holder].end(one)


class Window(NamedTuple):
    """What was spent of a rate, and until when that counts."""

    spent: float
    began_ms: float
    until_ms: float


class Limits:
    """What is set for groups, who runs, and what was started; nothing may start beyond it."""

    def __init__(self) -> None:
        self.set: dict[str, dict[str, Any]] = defaultdict(dict)
        self.active: dict[str, set[str]] = defaultdict(set)
        self.windows: dict[str, Window] = {}

    def of(self, path: str) -> dict[str, Any]:
        """What holds for a group."""
        return self.set["*/*" if "/" in path else "*"] | self.set[path]

    def start(self, path: str, id: str, cost: float, now_ms: float) -> None:
        for each in paths_of(path):
            limits = self.of(each)
            self.active[each].add(id)
            assert not limits.get("paused"), f"{id} of {each} started, which is paused"
            assert len(self.active[each]) <= limits.get("concurrency", math.inf), f"{each} at {id}"
            if "rate" in limits:
                self._spend(each, limits["rate"], cost, now_ms)

    def _spend(self, path: str, rate: Limit, cost: float, now_ms: float) -> None:
        known = self.windows.get(path)
        if known is None or known.until_ms <= now_ms:
            known = Window(0, now_ms, now_ms + rate.duration_ms)
        spent = known.spent + cost
        # In an empty window one of any cost may start, and takes as many more as it costs.
        assert spent <= rate.max or not known.spent, f"{path} spent {spent} of {rate.max}"
        self._count(path, rate, known, spent)

    def _count(self, path: str, rate: Limit, known: Window, spent: float) -> None:
        more = max(math.ceil(spent / rate.max), 1) - max(math.ceil(known.spent / rate.max), 1)
        until_ms = known.until_ms + more * rate.duration_ms
        self.windows[path] = known._replace(spent=spent, until_ms=until_ms)

    def give_back(self, path: str, cost: float, began_ms: float, now_ms: float) -> None:
        """What was not run has spent nothing in the window in which it began."""
        for each in paths_of(path):
            known, rate = self.windows.get(each), self.of(each).get("rate")
            if known and rate and known.until_ms > now_ms and began_ms >= known.began_ms:
                self._count(each, rate, known, max(known.spent - cost, 0))

    def end(self, path: str, id: str) -> None:
        for each in paths_of(path):
            self.active[each].discard(id)
