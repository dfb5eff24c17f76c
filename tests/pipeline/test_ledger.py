"""The ledger on a real server: clean after workers were killed, and it names what is missing."""

import asyncio
import json
import sys
from typing import Any

from pyspark.sql import SparkSession
from redis import Redis

from waystation.core.store import advice
from waystation.core.store.advice import AdviceKeys, DesiredWorkers, FailureLabels, Slo
from waystation.pipeline.history import History
from waystation.pipeline.run import ROOM, RunOptions, once
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.tables import GAPS, LEDGER
from waystation.queues.bullmq import Backoff, JobOptions, Queue

JOBS = 400
WORKER = """
import asyncio, random, sys
from waystation.core.runtime.service import until_asked_to_stop
from waystation.queues.bullmq import Worker

async def charge(job):
    await asyncio.sleep(random.random() * 0.02)
    if random.random() < 0.1:
        raise TimeoutError(f"no answer to {job.id}")

async def main():
    async with Worker("mail", charge, sys.argv[1], concurrency=10, lock_duration=1000,
                      stalled_interval=500, max_stalled=50):
        await until_asked_to_stop()

asyncio.run(main())
"""


async def chaos(url: str) -> None:
    """Work through a queue with workers that are killed in the middle of their work."""
    async with Queue("mail", url) as queue:
        options = JobOptions(attempts=20, backoff=Backoff.fixed(10))
        await queue.add_many(("send", {"n": n}, options) for n in range(JOBS))
        for goal in (90, 170, 290, JOBS):
            worker = await asyncio.create_subprocess_exec(sys.executable, "-c", WORKER, url)
            async with asyncio.timeout(100):
                while (await queue.counts("completed"))["completed"] < goal:
                    await asyncio.sleep(0.02)
            worker.kill()
            await worker.wait()
        await queue.add_many(("send", {"n": n}, options) for n in range(20))


def rounds(spark: SparkSession, root: str, url: str) -> History:
    once(History(spark, root), RunOptions(events=EventOptions(url=url)))
    return History(spark, root)


def test_the_ledger_is_clean_after_chaos_and_names_what_is_deleted_by_hand(
    spark: SparkSession, store: Redis, redis_url: str, root: str
) -> None:
    store.hset("bull:mail:meta", "opts.maxLenEvents", 1_000_000)
    asyncio.run(chaos(redis_url))

    (row,) = _ledger(rounds(spark, root, redis_url))
    assert (row["acknowledged"], row["terminal"], row["visible"]) == (JOBS + 20, JOBS, 20)
    assert row["clean"]

    said = json.loads(store.hget(AdviceKeys("mail").slo, "bullmq") or b"")
    assert said["failed_part"] == 0
    now = said["made_at"] + 1
    for kind in (Slo, FailureLabels, DesiredWorkers):
        key = getattr(AdviceKeys("mail"), kind.key)
        assert advice.read(store.hget(key, "bullmq"), kind, now_ms=now)
        assert 0 < store.pttl(key) <= 15 * 60 * 1000

    victim = str(JOBS + 7)
    store.delete(f"bull:mail:{victim}")
    (row,) = _ledger(rounds(spark, root, redis_url))
    assert (row["lost"], row["lost_ids"], row["visible"]) == (1, [victim], 19)
    assert not row["clean"]


def test_a_trimmed_stream_is_a_gap_of_exactly_so_many_events(
    spark: SparkSession, store: Redis, redis_url: str, root: str
) -> None:
    for number in range(300):
        store.xadd("bull:mail:events", {"event": "waiting", "jobId": str(number)})
    store.xtrim("bull:mail:events", maxlen=183, approximate=False)
    history = rounds(spark, root, redis_url)
    assert [row["lost"] for row in history.read(GAPS).collect()] == [117]
    assert sum(row["gaps"] for row in _ledger(history)) == 117
    assert not any(row["clean"] for row in _ledger(history) if row["gaps"])
    # From now on the stream is followed, and may get longer.
    assert int(store.hget("bull:mail:meta", "opts.maxLenEvents") or 0) == ROOM


def _ledger(history: History) -> list[dict[str, Any]]:
    return [row.asDict() for row in history.read(LEDGER).collect()]
