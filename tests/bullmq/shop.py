"""A queue with groups at which a test does everything at random, and the accounts it keeps of that.

What is true is what the test itself has seen happen; the store is only asked whether it agrees.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, NamedTuple

from tests.bullmq.accounts import COSTS, UNGROUPED, WEIGHTS, Fairness, Limits, Turn
from tests.bullmq.harness import Harness
from waystation.bullmq.job import Job
from waystation.bullmq.limits import Limit
from waystation.bullmq.options import Backoff, Group, JobOptions
from waystation.bullmq.queue import Queue
from waystation.core.codec import as_text
from waystation.core.errors import Unrecoverable
from waystation.core.outcome import Done, Failed, Outcome, Returned
from waystation.core.runtime.claim import Claim, Settled

RETRY_S, HOUR_S = 60, 3600
TICK_S = 600
"""What the clock is turned by, and what the time that passes by itself is too short for."""


class Kept(NamedTuple):
    """What is known of a job."""

    path: str
    cost: float
    has_pause: bool


class Shop:
    """A queue with groups, and what a test does there."""

    def __init__(self, harness: Harness, queue: Queue, seed: int) -> None:
        self.harness, self.queue = harness, queue
        self.random = random.Random(seed)
        self.fairness, self.limits = Fairness(), Limits()
        self.held: dict[str, Claim[Job]] = {}
        self.lost: dict[str, Claim[Job]] = {}
        self.jobs: dict[str, Kept] = {}
        self.delayed: dict[str, float] = {}
        self.begun: dict[str, float] = {}
        self.strays: set[str] = set()
        self.added = self.ended = 0
        self.started: dict[str, int] = defaultdict(int)
        # Locks end only where the test says so, and each answer that is lost is another worker's.
        self._worker = harness.source(worker="stays", lock_duration=HOUR_S * 1000)

    async def open(self) -> None:
        for path in WEIGHTS:
            await self._set_weight(path)

    async def _set_weight(self, path: str) -> None:
        group = None if path == UNGROUPED else Group.at(path)
        await self.queue.groups.set(group, weight=WEIGHTS[path])

    @property
    def backlog(self) -> int:
        """How many jobs have not ended."""
        return self.added - self.ended

    # What producers and workers do

    def any_group(self) -> str:
        return self.random.choice(list(WEIGHTS))

    async def add(self, path: str, most: int) -> None:
        chosen = [self._job(path) for _ in range(self.random.randint(1, most))]
        added = await self.queue.add_many([("work", None, options) for options, _ in chosen])
        for job, (_, kept) in zip(added, chosen, strict=True):
            self.jobs[job.id] = kept
            self.fairness.wait(path, job.id)
        self.added += len(added)

    def _job(self, path: str) -> tuple[JobOptions, Kept]:
        cost = self.random.choice(COSTS.get(path, (1, 2, 3.5, 20)))
        kept = Kept(path, cost, self.random.random() < 0.2)
        parent, _, own = path.rpartition("/")
        priority, lifo = self.random.choice(((0, False), (0, False), (3, False), (0, True)))
        group = Group(own, parent=parent or None, cost=cost, priority=priority) if path else None
        pause = Backoff.fixed(RETRY_S) if kept.has_pause else None
        own_priority = 0 if group else priority
        return JobOptions(
            group=group, attempts=1000, backoff=pause, lifo=lifo, priority=own_priority
        ), kept

    async def claim(self, most: int) -> int:
        return len(await self._claim(self._worker, most, self.held))

    async def lose_an_answer(self, most: int) -> None:
        source = self.harness.source(worker="ends", lock_duration=HOUR_S * 1000)
        await self._claim(source, most, self.lost)

    async def _claim(self, source: Any, most: int, into: dict[str, Claim[Job]]) -> list[str]:
        now_ms = self.harness.clock.now_ms()
        for id in [id for id, due_ms in self.delayed.items() if due_ms <= now_ms]:
            del self.delayed[id]
            self.fairness.wait(self.jobs[id].path, id)
        claims = (await source.settle([], claim=most)).claims
        held = await self._at_limits()
        self.fairness.hold(self.fairness.held | held)
        for claim in claims:
            path, cost, _ = self.jobs[claim.id]
            if claim.id in self.strays:
                # It joined its group in this call, and was the next one at once.
                self.strays.remove(claim.id)
                self.fairness.wait(path, claim.id)
            self.begun[claim.id] = now_ms
            self.limits.start(path, claim.id, cost, now_ms)
            self.fairness.start(path, claim.id, cost)
            self.started[path] += 1
            into[claim.id] = claim
        self.fairness.hold(held)
        await self._take_in_strays()
        return [claim.id for claim in claims]

    async def _take_in_strays(self) -> None:
        for id in list(self.strays):
            if await self.harness.call("ZSCORE", self.harness.keys.grouped, id) is not None:
                self.strays.remove(id)
                self.fairness.wait(self.jobs[id].path, id)

    async def settle(self, most: int) -> None:
        ids = self.random.sample(list(self.held), min(most, len(self.held)))
        settled = [Settled(self.held.pop(id), self._outcome()) for id in ids]
        if not settled:
            return
        reply = await self._worker.settle(settled, claim=0)
        assert not reply.refused
        for each in settled:
            self._file(each)
        if self.random.random() < 0.2:
            # Nothing counts twice.
            again = await self._worker.settle(settled, claim=0)
            assert len(again.refused) == len(settled)

    def _outcome(self) -> Outcome:
        return self.random.choice(
            (
                *(Done(1),) * 3,
                Failed(ValueError("again")),
                Failed(Unrecoverable("no")),
                Returned(),
            )
        )

    def _file(self, settled: Settled[Job]) -> None:
        id = settled.claim.id
        path, _, has_pause = self.jobs[id]
        self.limits.end(path, id)
        match settled.outcome:
            case Done() | Failed(Unrecoverable()):
                self._forget(id)
            case Failed() if has_pause:
                self.delayed[id] = self.harness.clock.now_ms() + RETRY_S * 1000
            case Returned():
                now_ms = self.harness.clock.now_ms()
                self.limits.give_back(path, self.jobs[id].cost, self.begun[id], now_ms)
                self.fairness.wait(path, id)
            case _:
                self.fairness.wait(path, id)

    def _forget(self, id: str) -> None:
        del self.jobs[id]
        self.ended += 1

    async def remove(self) -> None:
        path = self.any_group()
        ids = self.fairness.ids(path)
        if ids:
            id = self.random.choice(sorted(ids))
            job = await self.queue.get_job(id)
            assert job is not None
            await job.remove()
            self.fairness.leave(path, id)
            self._forget(id)

    # What goes wrong

    async def die(self) -> None:
        """The locks of some run out, of those whose answer was lost sooner or later."""
        gone = {**self.lost, **(self.held if self.random.random() < 0.5 else {})}
        await self._lapse(self.random.sample(list(gone), len(gone) // 2))

    async def _lapse(self, ids: Iterable[str]) -> None:
        ids = set(ids)
        for id in ids:
            await self.harness.call("DEL", self.harness.keys.of(id).lock)
        found: set[str] = set()
        for _ in range(2):
            await self.harness.call("DEL", self.harness.keys.stalled_check)
            # A thousand are put back in one call, and the next one goes on.
            while some := await self.harness.check_stalled(max_stalled=10**6):
                found.update(some)
        assert found == ids
        for id in ids:
            self._let_go(id)
            self.fairness.wait(self.jobs[id].path, id)

    def _let_go(self, id: str) -> None:
        self.held.pop(id, None)
        self.lost.pop(id, None)
        self.limits.end(self.jobs[id].path, id)

    async def put_back_by_another(self) -> None:
        """Node's stalled check knows no groups."""
        if not self.held:
            return
        id = self.random.choice(list(self.held))
        keys = self.harness.keys
        await self.harness.call("DEL", keys.of(id).lock)
        await self.harness.call("LREM", keys.active, 1, id)
        await self.harness.call("RPUSH", keys.wait, id)
        self._let_go(id)
        if self.jobs[id].path == UNGROUPED:
            self.fairness.wait(UNGROUPED, id)
        else:
            self.strays.add(id)

    # What operators do

    async def limit(self) -> None:
        path = self.random.choice([*list(WEIGHTS)[1:], "*", "*/*"])
        limits: dict[str, Any] = {}
        if self.random.random() < 0.6:
            limits["concurrency"] = self.random.choice((1, 2, 5, 30))
        if self.random.random() < 0.6:
            most = self.random.choice((5, 40, 300))
            limits["rate"] = Limit(most, timedelta(hours=self.random.choice((1, 2))))
        groups = self.queue.groups
        if path in {"*", "*/*"}:
            await groups.set_for_all(**limits, in_parents=path == "*/*")
        else:
            await groups.set(Group.at(path), **limits)
        self.limits.set[path] |= limits

    async def lift(self) -> None:
        path = self.random.choice(list(WEIGHTS)[1:])
        await self.queue.groups.reset(Group.at(path))
        await self._set_weight(path)
        is_paused = self.limits.set[path].get("paused", False)
        self.limits.set[path] = {"paused": is_paused}

    async def pause(self) -> None:
        path = self.random.choice(list(WEIGHTS)[1:])
        await self.queue.groups.pause(Group.at(path))
        self.limits.set[path]["paused"] = True

    async def resume(self) -> None:
        paused = [path for path, limits in self.limits.set.items() if limits.get("paused")]
        if paused:
            path = self.random.choice(paused)
            await self.queue.groups.resume(Group.at(path))
            self.limits.set[path]["paused"] = False

    async def pass_time(self, ticks: int = 0) -> None:
        ticks = ticks or self.random.choice((1, 1, 3, 6))
        await self.harness.clock.advance(ticks * TICK_S)
        tick_ms = TICK_S * 1000
        # Windows end by the store's own clock.
        keys = [f"{self.harness.keys.base}groups:spent:{path}" for path in WEIGHTS]
        left = await self._call_all(*(("PTTL", key) for key in keys))
        await self._call_all(
            *(
                ("PEXPIRE", key, (round(left_ms / tick_ms) - ticks) * tick_ms)
                for key, left_ms in zip(keys, left, strict=True)
                if left_ms > 0
            )
        )

    async def finish(self) -> None:
        """Lift no limit but pauses, and see every job to its end."""
        while any(limits.get("paused") for limits in self.limits.set.values()):
            await self.resume()
        dry = 0
        while self.backlog:
            await self._lapse(list(self.lost))
            dry = 0 if await self.claim(50) else dry + 1
            assert dry < 50, f"{self.backlog} jobs starve"
            settled = [Settled(claim, Done(1)) for claim in self.held.values()]
            assert not (await self._worker.settle(settled, claim=0)).refused
            self.held.clear()
            for each in settled:
                self._file(each)
            if dry:
                await self.pass_time(6)
        await self.pass_time(50 * 6)
        assert await self.claim(1) == 0

    # What the store says

    async def _call_all(self, *commands: tuple[Any, ...]) -> list[Any]:
        return await asyncio.gather(*(self.harness.call(*command) for command in commands))

    async def _at_limits(self) -> set[Turn]:
        """Those of which jobs wait and none may start."""
        base, holders = self.harness.keys.base, list(self.fairness.turns)
        found = await self._call_all(
            *(("ZRANGE", f"{base}groups:ready:{holder}", 0, -1) for holder in holders)
        )
        ready = {
            (holder, as_text(path))
            for holder, paths in zip(holders, found, strict=True)
            for path in paths
        }
        return {
            (holder, one)
            for holder, turns in self.fairness.turns.items()
            for one in turns.weights
            if holder != one and (holder, one) not in ready
        }

    async def look(self) -> None:
        """Note who may start something now."""
        self.fairness.hold(await self._at_limits())

    async def check(self) -> None:
        """What has waiting jobs is ready or held, or holds only what is held; all is counted."""
        base, fairness = f"{self.harness.keys.base}groups:", self.fairness
        groups = [path for path in WEIGHTS if path]
        held, sizes, clock = await self._call_all(
            ("ZRANGE", f"{base}held", 0, -1),
            ("ZRANGE", f"{base}sizes", 0, -1, "WITHSCORES"),
            ("HGETALL", f"{base}clock"),
        )
        held = {as_text(path) for path in held}
        waiting = {path: set(fairness.ids(path)) for path in groups}
        counted = {path: fairness.waiting[UNGROUPED, path] for path in groups if "/" not in path}
        counted |= {path: len(waiting[path]) for path in groups if "/" in path}
        counted = {path: count for path, count in counted.items() if count}
        assert dict(_scores(sizes)) == counted
        assert await self._ids(self.harness.keys.grouped) == set().union(*waiting.values())
        for path in groups:
            assert await self._ids(f"{base}jobs:{path}") == waiting[path]
        assert held <= counted.keys(), "what is held has jobs"

        at_limits = await self._at_limits()
        for path in counted:
            holder = path.rpartition("/")[0]
            if path in held or (holder, path) not in at_limits:
                continue
            within = [each for each in counted if each.startswith(f"{path}/")]
            assert not waiting[path], f"nobody asks {path}, of which jobs wait"
            assert within, f"nobody asks {path}"
            assert set(within) <= held, f"nobody asks {path}, in which {within} wait"
        await self._check_tags(base, _scores(clock))
        await self._check_active(base)

    async def _check_tags(self, base: str, clock: dict[str, float]) -> None:
        """Nobody is behind the time, which would be credit."""
        for holder in self.fairness.turns:
            ready, past = await self._call_all(
                ("ZRANGE", f"{base}ready:{holder}", 0, -1, "WITHSCORES"),
                ("ZRANGE", f"{base}past:{holder}", 0, -1, "WITHSCORES"),
            )
            ready, past, time = _scores(ready), _scores(past), clock.get(holder, 0)
            assert min(ready.values(), default=time) >= time
            assert not ready.keys() & past.keys()
            assert holder not in past
            if holder and not self.fairness.waiting[UNGROUPED, holder]:
                assert (ready, past, time) == ({}, {}, 0), f"{holder} is empty"

    async def _check_active(self, base: str) -> None:
        """Whoever runs is counted where a limit of them is set."""
        for path in WEIGHTS:
            if path and "concurrency" in self.limits.of(path):
                counted = await self.harness.call("SMEMBERS", f"{base}active:{path}")
                assert self.limits.active[path] <= {as_text(id) for id in counted}

    async def _ids(self, key: str) -> set[str]:
        return {as_text(id) for id in await self.harness.call("ZRANGE", key, 0, -1)}

    async def keys_of_groups(self) -> set[str]:
        """What is stored for groups."""
        base = self.harness.keys.base
        keys = await self.harness.redis.keys(f"{base}group*")
        return {as_text(key).removeprefix(base) for key in keys}


def _scores(flat: Any) -> dict[str, float]:
    return {as_text(name): float(value) for name, value in zip(flat[::2], flat[1::2], strict=True)}
