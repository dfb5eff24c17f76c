"""Costs that must not grow with what is stored: the backlog, the completed, the active."""

import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.bullmq.filling import PLAIN, fill
from benchmarks.bullmq.settling import settle
from waystation.bullmq import Queue
from waystation.bullmq.redis import scripts
from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.upkeep import RECOVERED_AT_ONCE
from waystation.core.store.connection import Store, connect

BATCH = 100
CALLS = 100


async def drain_cost(url: str, backlog: int) -> float:
    """Microseconds a job to claim and complete the oldest of a backlog of this size."""
    async with await connect(url) as store, Queue(f"growth-{time.time_ns()}", store) as queue:
        await fill(queue, backlog)
        took = await _turns(store, QueueKeys(queue.name))
        await _forget(store)
    return took


async def claim_cost_beside(url: str, completed: int) -> float:
    """Microseconds a job to claim and complete while this many completed ones are kept."""
    async with await connect(url) as store, Queue(f"growth-{time.time_ns()}", store) as queue:
        scores = {f"done-{n}": n for n in range(completed)}
        if scores:
            await store.redis.zadd(QueueKeys(queue.name).completed, scores)
        await fill(queue, BATCH * (CALLS + 1))
        took = await _turns(store, QueueKeys(queue.name))
        await _forget(store)
    return took


async def stalled_check_ms(url: str, active: int) -> tuple[float, float]:
    """Milliseconds of one look at this many active jobs: when all are alive, when all are not."""
    async with await connect(url) as store, Queue(f"growth-{time.time_ns()}", store) as queue:
        keys = QueueKeys(queue.name)
        await queue.add_many([("job", {"n": n}, PLAIN) for n in range(active)])
        await settle(store, keys, [], active)
        await _look(store, keys)
        alive = await _look(store, keys)
        locks = [f"{keys.base}{n}:lock" for n in range(1, active + 1)]
        for first in range(0, active, 1000):
            await store.redis.delete(*locks[first : first + 1000])
        dead = await _look(store, keys)
        await _forget(store)
    return alive, dead


async def memory_per_waiting_job(url: str, jobs: int) -> float:
    """Bytes the store needs for one of our waiting jobs."""
    # The name that Node's queue has, because every key holds it.
    async with await connect(url) as store, Queue("weighed", store) as queue:
        return await bytes_each(store, lambda: fill(queue, jobs), jobs)


async def bytes_each(store: Store, work: Callable[[], Awaitable[Any]], jobs: int) -> float:
    """Bytes by which this work makes an empty store grow, for each of its jobs."""
    await _forget(store)
    before = await _used_memory(store)
    await work()
    after = await _used_memory(store)
    await _forget(store)
    return (after - before) / jobs


async def _used_memory(store: Store) -> int:
    return (await store.redis.info("memory"))["used_memory"]


async def _turns(store: Store, keys: QueueKeys) -> float:
    held: list[str] = []
    took: list[float] = []
    for _ in range(CALLS):
        began = time.perf_counter()
        held = await settle(store, keys, held, BATCH)
        took.append(time.perf_counter() - began)
    return statistics.median(took) / BATCH * 1e6


async def _look(store: Store, keys: QueueKeys) -> float:
    await store.redis.delete(keys.stalled_check)
    began = time.perf_counter()
    await scripts.recover_stalled(
        store.hot, keys, now="", interval_ms=30_000, max_stalled=1, most=RECOVERED_AT_ONCE
    )
    return (time.perf_counter() - began) * 1000


async def _forget(store: Store) -> None:
    # Valkey would free the memory later, in the middle of what is measured next.
    await store.redis.execute_command("FLUSHDB", "SYNC")
