"""The ledger on a real server: clean after workers were killed, and it names what is missing."""

import asyncio
import datetime as dt
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from redis import Redis

from tests.pipeline.batches import run_round
from tests.pipeline.raw_streams import write_events
from tests.pipeline.rounds import history_at
from tests.pipeline.saved import save
from tests.support.patience import limit
from waystation.bullmq import Backoff, JobOptions, Queue
from waystation.core.line import forecasts
from waystation.core.line.forecasts import DesiredWorkers, FailureLabels, RecommendationKeys, Slo
from waystation.pipeline.history import History
from waystation.pipeline.refresh.ledger import judged, unseen, unsettled
from waystation.pipeline.refresh.snapshot import take_snapshot
from waystation.pipeline.runner import STREAM_LIMIT, RunOptions
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import pa
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.tables import GAPS, LEDGER

JOBS = 400
WORKER = """
import asyncio, random, sys
from waystation.core.runtime.service import until_asked_to_stop
from waystation.bullmq import Worker

async def charge(job):
    await asyncio.sleep(random.random() * 0.02)
    if random.random() < 0.1:
        raise TimeoutError(f"no answer to {job.id}")

async def main():
    async with Worker("mail", charge, sys.argv[1], concurrency=10, lease=1,
                      stalled_interval=0.5, max_stalled=50):
        await until_asked_to_stop()

asyncio.run(main())
"""


async def chaos(url: str) -> None:
    """Work through a queue with workers that are killed in the middle of their work."""
    async with Queue("mail", url) as queue:
        options = JobOptions(attempts=20, backoff=Backoff.fixed(0.01))
        await queue.add_many(("send", {"n": n}, options) for n in range(JOBS))
        for goal in (90, 170, 290, JOBS):
            worker = await asyncio.create_subprocess_exec(sys.executable, "-c", WORKER, url)
            async with asyncio.timeout(limit(100)):
                while (await queue.counts("completed"))["completed"] < goal:
                    await asyncio.sleep(0.02)
            worker.kill()
            await worker.wait()
        await queue.add_many(("send", {"n": n}, options) for n in range(20))


def rounds(spark: SparkSession, root: str, url: str) -> History:
    run_round(history_at(root), RunOptions(events=EventOptions(url=url)))
    return history_at(root)


@pytest.mark.slow
def test_the_ledger_is_clean_after_chaos_and_names_what_is_trimmed_or_deleted_by_hand(
    spark: SparkSession, store: Redis, redis_url: str, root: str
) -> None:
    store.hset("bull:mail:meta", "opts.maxLenEvents", 1_000_000)
    asyncio.run(chaos(redis_url))
    write_events(store, 300, queue="sms")
    store.xtrim("bull:sms:events", maxlen=183, approximate=False)

    history = rounds(spark, root, redis_url)
    (row,) = _ledger(history, "mail")
    assert (row["acknowledged"], row["terminal"], row["visible"]) == (JOBS + 20, JOBS, 20)
    assert row["clean"]

    # A stretch that was trimmed is a gap of exactly so many events.
    assert [gap["lost"] for gap in history.read(GAPS).collect()] == [117]
    assert sum(row["gaps"] for row in _ledger(history, "sms")) == 117
    assert not any(row["clean"] for row in _ledger(history, "sms") if row["gaps"])
    # From now on the stream is followed, and may get longer.
    assert int(store.hget("bull:sms:meta", "opts.maxLenEvents") or 0) == STREAM_LIMIT

    said = json.loads(store.hget(RecommendationKeys("mail").slo, "bullmq") or b"")
    assert said["failed_part"] == 0
    now = said["made_at"] + 1
    for kind in (Slo, FailureLabels, DesiredWorkers):
        key = getattr(RecommendationKeys("mail"), kind.key)
        assert forecasts.read(store.hget(key, "bullmq"), kind, now_ms=now)
        assert 0 < store.pttl(key) <= 15 * 60 * 1000

    victim = str(JOBS + 7)
    store.delete(f"bull:mail:{victim}")
    (row,) = _ledger(rounds(spark, root, redis_url), "mail")
    assert (row["lost"], row["lost_ids"], row["visible"]) == (1, [victim], 19)
    assert not row["clean"]


@pytest.mark.slow
def test_what_a_store_has_forgotten_is_lost_however_often_it_is_looked_at(
    spark: SparkSession, store: Redis, redis_url: str
) -> None:
    options = EventOptions(url=redis_url)
    rows = [("bullmq", "mail", str(number), "waiting") for number in range(3)]
    items = spark.createDataFrame(rows, "product string, queue string, job_id string, state string")

    def fates(recorded_at: dt.datetime, *, is_first: bool = False) -> set[str]:
        seen = take_snapshot(options, is_first=is_first)
        known = items.withColumn("last_recorded_at", F.lit(recorded_at))
        gone: Any = judged(unseen(known, seen).toArrow(), seen)
        return {row["fate"] for row in gone.to_pylist()}

    before = dt.datetime.now(dt.UTC) - dt.timedelta(hours=1)
    # Whoever looks for the first time sees that they were taken out.
    assert fates(before, is_first=True) == {"removed"}
    assert fates(before) == {"removed"}
    store.flushdb()
    assert [fates(before) for _ in range(2)] == [{"lost"}, {"lost"}]
    assert fates(take_snapshot(options).since) == {"removed"}


def _ledger(history: History, queue: str) -> list[dict[str, Any]]:
    return [row.asDict() for row in history.read(LEDGER).where(F.col("queue") == queue).collect()]


@pytest.mark.slow
def test_a_round_of_many_hours_leaves_those_in_between_alone(
    redis_url: str, tmp_path: Path
) -> None:
    def work(queue: str, hours: range) -> None:
        with Redis.from_url(redis_url) as store:
            line = store.pipeline(transaction=False)
            for hour in hours:
                for seq, event in enumerate(("added", "active", "completed")):
                    fields: Any = {"event": event, "jobId": f"{queue}{hour}"}
                    at = f"{3_600_000 * (490_000 + hour)}-{seq}"
                    line.xadd(f"bull:{queue}:events", fields, id=at)
            line.execute()

    history = history_at(str(tmp_path))
    options = RunOptions(events=EventOptions(url=redis_url), write_back=False)
    few, many = range(1, 240, 48), range(0, 240, 2)
    for queue, hours in (("a", few), ("b", many)):
        work(queue, hours)
        assert run_round(history, options).failed_checks == ()
    rows = delta.read_arrow(str(tmp_path), LEDGER, LEDGER.names).num_rows
    assert rows == len(few) + len(many)


def test_hours_that_are_settled_are_not_read_again(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the history is: a file is left alone in which all jobs have ended."""
    start = dt.datetime(2026, 3, 1, 10, tzinfo=dt.UTC)
    open_by_day = [0, 0, 1, None, 0]
    for day, visible in enumerate(open_by_day):
        at = start + dt.timedelta(days=day)
        lost = None if visible is None else 0
        row = {"product": "bullmq", "queue": "mail", "hour": at, "gaps": 0}
        rows = [{**row, "visible": visible, "lost": lost}, {**row, "visible": 0, "lost": 0}]
        save(pa.Table.from_pylist(rows), root, LEDGER, BatchId("test", day))
    gap = {"product": "bullmq", "queue": "mail", "before_at": start, "lost": 3}
    save(pa.Table.from_pylist([gap]), root, GAPS, BatchId("test", 0))
    read: dict[str, int] = {}

    def noting(path: str, table: Any, names: Any, **more: Any) -> Any:
        read[table.name] = len(names)
        return read_files(path, table, names, **more)

    read_files = delta.read_files
    monkeypatch.setattr(delta, "read_files", noting)
    days = {(hour - start).days for hour in unsettled(root)}
    assert days == {0, 2, 3}
    # The first has a gap that is not counted, the last is settled.
    assert read[LEDGER.name] == 3
