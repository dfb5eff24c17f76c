"""Groups on recorded hours: one tenant adds 100,000 jobs, and how long all others wait.

GROUP_TRACES names a folder with traces, `*.csv.gz` with the columns TIMESTAMP, ContextTokens and
GeneratedTokens: a call costs its tokens, and runs for 20 ms and 1 ms for each token it generates,
times REPLAY_SLOWER. Without, a made-up hour is used. The trace knows no tenants: each call gets one
of 500 by a Zipf draw. Time is virtual, so a run comes out the same wherever it is made.
The queue is a real one, and its scripts say who is next; round robin and a cap for each key
are models in Python over the same calls. `build/benchmarks` gets a picture.
"""

import asyncio
import csv
import datetime as dt
import gzip
import heapq
import math
import os
import random
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from benchmarks.bullmq.settling import settle
from benchmarks.chart import bars
from benchmarks.report import Report, Row
from waystation.bullmq import Group, JobOptions, NewJob, Queue
from waystation.bullmq.redis.keys import QueueKeys
from waystation.core.store import embedded
from waystation.core.store.connection import Store, connect

FLOOD = int(os.environ.get("REPLAY_FLOOD", "100000"))
SLOWER = float(os.environ.get("REPLAY_SLOWER", "10"))
FLOOD_AT_S = 300.0
BUSY = 0.8
"""The share of the time in which the slots are busy with the trace alone, at most."""
TENANTS, EXPONENT, SEED = 500, 1.1, 35
LARGEST, SMALL = "tenant-0", "tenant-50"
KEYS = 1000
CAP = 0.25
"""The share of the slots that jobs of one key may have: more than the largest tenant needs."""
PICTURED = 7
"""How many results of each trace are in the picture: those of a flood by the largest tenant."""
FOLDER = Path("build/benchmarks")


class Call(msgspec.Struct):
    """A job of the replay."""

    ready: float
    run_s: float
    cost: int
    tenant: str
    key: str | None = None
    """Into which key of its tenant it was split."""
    id: str = ""
    """What the store calls it."""

    @property
    def path(self) -> str:
        """Its key where nobody knows of parents."""
        return self.tenant if self.key is None else f"{self.tenant}/{self.key}"


Wait = tuple[Call, float]


class Line(Protocol):
    """Who is next."""

    async def add(self, calls: Sequence[Call]) -> None:
        """Let calls wait."""
        ...

    async def turn(self, ended: Sequence[Call], want: int) -> Sequence[Call]:
        """End calls, and start others, as many as are wanted."""
        ...


class Result(msgspec.Struct, frozen=True):
    """How long those waited who are looked at, without the flood and with it."""

    what: str
    alone: list[float]
    flooded: list[float]

    def row(self, share: float) -> Row:
        """One of their percentiles."""
        alone = _percentile(self.alone, share)
        # Where nobody waits without the flood, a millisecond stands for nothing.
        return Row(
            f"p{100 * share:.0f}, {self.what}",
            _percentile(self.flooded, share),
            max(alone, 0.001),
        )


def run() -> list[Report]:
    """A report for each trace, and one picture of all."""
    with embedded.ephemeral() as server:
        found = {name: asyncio.run(_replay(server.url, calls)) for name, calls in _traces()}
    _write(found)
    return [_report(name, results) for name, results in found.items()]


async def _replay(url: str, calls: list[Call]) -> list[Result]:
    slots = _slots(calls)
    cap = math.ceil(CAP * slots)
    whole, split = _flood(calls, LARGEST, 1), _flood(calls, LARGEST, KEYS)
    async with await connect(url) as store:

        async def stored(
            flood: list[Call], flooder: str, *, has_groups: bool = True, weight: float = 1
        ) -> list[Wait]:
            async with Queue(f"replay-{time.time_ns()}", store) as queue:
                if weight != 1:
                    await queue.groups.set(LARGEST, weight=weight)
                line = Stored(store, queue, has_groups=has_groups)
                found = await waits(calls + flood, slots, line, flooder)
            await store.redis.execute_command("FLUSHDB", "SYNC")
            return found

        alone = await stored([], "")
        from_small = _flood(calls, SMALL, 1)
        small = await stored(from_small, SMALL)
        weighted = await stored(from_small, SMALL, weight=2)
        flooded = {
            "groups": await stored(whole, LARGEST),
            f"groups, {KEYS:,} keys": await stored(split, LARGEST),
            "first come, first served": await stored(whole, LARGEST, has_groups=False),
            "round robin": await waits(calls + whole, slots, RoundRobin(), LARGEST),
            f"round robin, {KEYS:,} keys": await waits(calls + split, slots, RoundRobin(), LARGEST),
            "a cap per key": await waits(calls + whole, slots, Capped(cap), LARGEST),
            f"a cap per key, {KEYS:,} keys": await waits(
                calls + split, slots, Capped(cap), LARGEST
            ),
        }
    return [
        *(
            Result(what, _without(alone, LARGEST), _without(found, LARGEST))
            for what, found in flooded.items()
        ),
        Result("groups, a small tenant", _without(alone, SMALL), _without(small, SMALL)),
        Result(
            "the same, all but the largest",
            _without(alone, SMALL, LARGEST),
            _without(small, SMALL, LARGEST),
        ),
        Result(
            "the same, the largest has weight 2", _without(alone, SMALL), _without(weighted, SMALL)
        ),
    ]


async def waits(calls: list[Call], slots: int, line: Line, flooder: str) -> list[Wait]:
    """How long each call waited, until all have started that are not the flooding tenant's."""
    coming = deque(sorted(calls, key=lambda call: call.ready))
    left = sum(call.tenant != flooder for call in calls)
    running: list[tuple[float, int, Call]] = []
    found: list[Wait] = []
    while left:
        now = running[0][0] if running else math.inf
        # While all slots are busy, it is soon enough to know who has come when one is free.
        if coming and len(running) < slots:
            now = min(now, coming[0].ready)
        came: list[Call] = []
        while coming and coming[0].ready <= now:
            came.append(coming.popleft())
        ended: list[Call] = []
        while running and running[0][0] <= now:
            ended.append(heapq.heappop(running)[2])
        await line.add(came)
        for call in await line.turn(ended, slots - len(running)):
            found.append((call, now - call.ready))
            heapq.heappush(running, (now + call.run_s, len(found), call))
            left -= call.tenant != flooder
    return found


class Stored:
    """A queue in the store, whose scripts say who is next."""

    def __init__(self, store: Store, queue: Queue, *, has_groups: bool) -> None:
        self._store = store
        self._queue = queue
        self._has_groups = has_groups
        # Without groups nobody overtakes, so it comes to the same when many are claimed at once.
        self._ahead = 0 if has_groups else 500
        self._waiting: dict[str, Call] = {}
        self._claimed = deque[Call]()
        self._ended: list[Call] = []

    async def add(self, calls: Sequence[Call]) -> None:
        """Let calls wait."""
        if not calls:
            return
        jobs = [NewJob("call", None, self._options(call)) for call in calls]
        for job, call in zip(await self._queue.add_many(jobs), calls, strict=True):
            call.id = job.id
            self._waiting[job.id] = call

    async def turn(self, ended: Sequence[Call], want: int) -> Sequence[Call]:
        """End calls, and start others, as many as are wanted."""
        self._ended += ended
        if self._waiting and len(self._claimed) < want:
            await self._settle(max(want, self._ahead))
        return [self._claimed.popleft() for _ in range(min(want, len(self._claimed)))]

    async def _settle(self, want: int) -> None:
        keys, ended = QueueKeys(self._queue.name), [call.id for call in self._ended]
        claimed = await settle(self._store, keys, ended, want)
        self._ended.clear()
        self._claimed += [self._waiting.pop(id) for id in claimed]

    def _options(self, call: Call) -> JobOptions:
        if not self._has_groups:
            return JobOptions()
        if call.key is None:
            return JobOptions(group=Group(call.tenant, cost=call.cost))
        return JobOptions(group=Group(call.key, parent=call.tenant, cost=call.cost))


class RoundRobin:
    """A model: the keys take turns, whatever a call costs."""

    def __init__(self) -> None:
        self._lines: dict[str, deque[Call]] = {}
        self._turns = deque[str]()

    async def add(self, calls: Sequence[Call]) -> None:
        """Let calls wait."""
        for call in calls:
            if call.path not in self._lines:
                self._lines[call.path] = deque()
                self._turns.append(call.path)
            self._lines[call.path].append(call)

    async def turn(self, ended: Sequence[Call], want: int) -> Sequence[Call]:
        """Start calls, one for each turn."""
        started: list[Call] = []
        while self._turns and len(started) < want:
            path = self._turns.popleft()
            started.append(self._lines[path].popleft())
            if self._lines[path]:
                self._turns.append(path)
            else:
                del self._lines[path]
        return started


class Capped:
    """A model: first come, first served, but of each key only so many at once."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._lines: dict[str, deque[tuple[int, Call]]] = {}
        self._first: list[tuple[int, str]] = []
        """The keys that may start a call, the one whose call came first at the top."""
        self._running = Counter[str]()
        self._came = 0

    async def add(self, calls: Sequence[Call]) -> None:
        """Let calls wait."""
        for call in calls:
            line = self._lines.setdefault(call.path, deque())
            line.append((self._came, call))
            self._came += 1
            if len(line) == 1:
                self._offer(call.path)

    async def turn(self, ended: Sequence[Call], want: int) -> Sequence[Call]:
        """End calls, and start others."""
        for call in ended:
            self._running[call.path] -= 1
            if self._running[call.path] == self._cap - 1:
                self._offer(call.path)
        started: list[Call] = []
        while self._first and len(started) < want:
            _, path = heapq.heappop(self._first)
            started.append(self._lines[path].popleft()[1])
            self._running[path] += 1
            self._offer(path)
        return started

    def _offer(self, path: str) -> None:
        if self._lines.get(path) and self._running[path] < self._cap:
            heapq.heappush(self._first, (self._lines[path][0][0], path))


def _flood(calls: Sequence[Call], tenant: str, keys: int) -> list[Call]:
    """Jobs like those of the trace, all at one instant."""
    dice = random.Random(SEED)
    return [
        Call(FLOOD_AT_S, like.run_s, like.cost, tenant, f"key-{n % keys}" if keys > 1 else None)
        for n, like in enumerate(dice.choices(calls, k=FLOOD))
    ]


def _slots(calls: Sequence[Call]) -> int:
    load = sum(call.run_s for call in calls) / (calls[-1].ready - calls[0].ready)
    return math.ceil(load / BUSY)


def _without(found: Sequence[Wait], *tenants: str) -> list[float]:
    """The waits of the others that came after the flood, sorted."""
    return sorted(
        wait for call, wait in found if call.ready > FLOOD_AT_S and call.tenant not in tenants
    )


def _percentile(values: Sequence[float], share: float) -> float:
    return values[min(len(values) - 1, int(share * len(values)))]


def _report(name: str, results: Sequence[Result]) -> Report:
    return Report(
        title=f"{name}: one tenant adds {FLOOD:,} jobs, and the others wait, in seconds",
        unit="with them",
        beside="without",
        rows=[each.row(share) for each in results for share in (0.5, 0.99)],
        remark="aim: p99 of groups within 2, also when they are split into keys of one parent; "
        "round robin and a cap per key are models, the others the real scripts",
    )


def _write(found: dict[str, list[Result]]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    rows = [
        (f"{each.what} ({name})", each.row(0.99).ratio)
        for nth in range(PICTURED)
        for name, results in found.items()
        for each in results[nth : nth + 1]
    ]
    (FOLDER / "groups_replay.svg").write_text(
        bars(
            f"How many times as long the others wait (p99) when one tenant adds {FLOOD:,} jobs",
            rows,
            length=lambda ratio: math.log10(max(ratio, 1)) + 0.1,
            form=",.1f",
        )
    )


def _traces() -> Iterator[tuple[str, list[Call]]]:
    folder = os.environ.get("GROUP_TRACES")
    if not folder:
        yield "made up", _with_tenants(_made_up())
        return
    for path in sorted(Path(folder).glob("*.csv.gz")):
        with gzip.open(path, "rt") as lines:
            rows = list(csv.DictReader(lines))
        # Python reads six digits of a second, and these have seven.
        at = [dt.datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp() for row in rows]
        first = min(at)
        yield (
            path.name.removesuffix(".csv.gz").rpartition("-")[2],
            _with_tenants(
                (ready - first, int(row["ContextTokens"]), int(row["GeneratedTokens"]))
                for ready, row in zip(at, rows, strict=True)
            ),
        )


def _made_up() -> Iterator[tuple[float, int, int]]:
    dice = random.Random(SEED)
    for _ in range(10_000):
        yield (
            dice.uniform(0, 3600),
            int(dice.expovariate(1 / 1000)),
            1 + int(dice.expovariate(1 / 200)),
        )


def _with_tenants(calls: Iterable[tuple[float, int, int]]) -> list[Call]:
    """Calls from their instants, the tokens they were given, and those they generated."""
    dice = random.Random(SEED)
    weights = [1 / nth**EXPONENT for nth in range(1, TENANTS + 1)]
    made = [
        Call(
            ready,
            SLOWER * (0.020 + 0.001 * generated),
            given + generated,
            f"tenant-{dice.choices(range(TENANTS), weights)[0]}",
        )
        for ready, given, generated in calls
    ]
    return sorted(made, key=lambda call: call.ready)
