"""Schedules while both of their schedulers crash, again and again, between any two steps."""

import asyncio
import random
import signal
import sys
from asyncio.subprocess import Process
from collections import defaultdict
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.size import size
from waystation.core.store.connection import Store, connect
from waystation.core.store.embedded import Ephemeral
from waystation.routing import JobOptions, Queue, Schedule

ROOT = Path(__file__).parents[2]
SCHEDULES = 3
SLOTS = size(3, full=8)
CRASHES = size(3, full=6)
MOST_STEPS = 60


@pytest.mark.slow
@pytest.mark.full
async def test_every_slot_makes_one_job_whoever_is_killed_at_whatever_step(
    own_server: Ephemeral,
) -> None:
    """B-25 B-31 B-52 F-B3 F-B4 F-B15"""
    async with await connect(own_server.url) as store, Queue(store) as queue:
        every_second = JobOptions(schedule=Schedule(cron="* * * * * *", missed="all"))
        schedules = [(await queue.add("tick", None, every_second)).id for _ in range(SCHEDULES)]
        crashes = await _crash_until(own_server.url, store, schedules)
        fired = await _fired(store)
        waiting: Any = await store.redis.lrange("bridge:jobs:waiting", 0, -1)

    assert crashes >= CRASHES
    for schedule in schedules:
        slots = fired[schedule]
        assert len(slots) >= SLOTS
        assert [later - earlier for earlier, later in pairwise(slots)] == [1000] * (len(slots) - 1)
    made = {f"{schedule}:{slot}" for schedule in schedules for slot in fired[schedule]}
    assert sorted(id.decode() for id in waiting) == sorted(made)


async def _crash_until(url: str, store: Store, schedules: list[str]) -> int:
    """Keep two schedulers running until enough slots have come and enough of them have died."""
    names, crashes = count(1), 0
    pair = [await _start(url, next(names)) for _ in range(2)]
    try:
        while crashes < CRASHES or not await _enough(store, schedules):
            await asyncio.sleep(0.1)
            for place, each in enumerate(pair):
                if each.returncode is not None:
                    assert each.returncode == -signal.SIGKILL
                    crashes += 1
                    pair[place] = await _start(url, next(names))
        return crashes
    finally:
        for each in pair:
            if each.returncode is None:
                each.kill()
            await each.wait()


async def _start(url: str, number: int) -> Process:
    program = (sys.executable, "-m", "tests.chaos.routing_scheduler")
    args = (url, f"s{number}", str(random.randint(1, MOST_STEPS)))
    return await asyncio.create_subprocess_exec(*program, *args, cwd=ROOT)


async def _enough(store: Store, schedules: list[str]) -> bool:
    fired = await _fired(store)
    return all(len(fired[schedule]) >= SLOTS for schedule in schedules)


async def _fired(store: Store) -> dict[str, list[int]]:
    entries: Any = await store.redis.xrange("bridge:events:stream")
    fired: defaultdict[str, list[int]] = defaultdict(list)
    for _, entry in entries:
        if entry[b"event"] == b"fired":
            fired[entry[b"schedule"].decode()].append(int(entry[b"slot"]))
    return fired
