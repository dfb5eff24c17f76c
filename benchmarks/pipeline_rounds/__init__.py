"""Rounds of the pipeline over a thousand new events, on histories of different sizes.

Every size has a process of its own. ROUND_EVENTS=0,100000,1000000 picks the sizes, of which the
first is what the others are compared with.
"""

import os
import statistics
import tempfile
import time

import msgspec
from pyspark.sql import SparkSession
from redis import Redis

from benchmarks.apart import apart
from benchmarks.pipeline_rounds import past
from benchmarks.report import Report, Row
from waystation.core.store import embedded
from waystation.pipeline.history import History
from waystation.pipeline.refresh import gold_tables
from waystation.pipeline.refresh.fold import fold
from waystation.pipeline.runner import RunOptions
from waystation.pipeline.runner import run as run_once
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.spark.session import SessionOptions
from waystation.pipeline.spark.startup import start_session

SIZES = tuple(int(size) for size in os.environ.get("ROUND_EVENTS", "0,100000,1000000").split(","))
NEW = 1_000
ROUNDS = 5
DATA = '{"tenant":"acme","order":{"id":7},"note":"' + "lorem ipsum " * 20 + '"}'


class Measured(msgspec.Struct, frozen=True):
    """What rounds on one history took."""

    events: int
    cpu_s: list[float]
    wall_s: list[float]
    build_s: float


def run() -> Report:
    """The processor time of a round on each history, beside that on the first."""
    measured = [apart(_measured, size) for size in SIZES]
    least = statistics.median(measured[0].cpu_s)
    return Report(
        title=f"A round over {NEW:,} new events",
        unit="CPU seconds, median",
        beside=f"on {measured[0].events:,} events",
        rows=[
            Row(f"on a history of {each.events:,} events", statistics.median(each.cpu_s), least)
            for each in measured
        ],
        remark="; ".join(
            f"{each.events:,}: {min(each.cpu_s):.2f} to {max(each.cpu_s):.2f} s, "
            f"wall {statistics.median(each.wall_s):.2f} s, history built in {each.build_s:.0f} s"
            for each in measured
        )
        + "; aim: within 1.3",
    )


def _session() -> SparkSession:
    return start_session(SessionOptions(master="local[2]", conf={"spark.log.level": "OFF"}))


def _measured(size: int) -> Measured:
    with tempfile.TemporaryDirectory() as root, embedded.ephemeral() as server:
        # Without Spark, whatever the size: it is the rounds after these that are measured.
        history = History(_session, root, spark_from=10**12)
        began, events = time.process_time(), 0
        for some in past.write(root, size):
            events += some
            fold(history)
            gold_tables.refresh(history.fresh())
        build_s = time.process_time() - began
        options = RunOptions(events=EventOptions(url=server.url))
        history = History(_session, root)
        cpu_s: list[float] = []
        wall_s: list[float] = []
        with Redis.from_url(server.url, protocol=2) as store:
            for number in range(ROUNDS + 1):
                _tell(store, number)
                began, wall = time.process_time(), time.perf_counter()
                result = run_once(history, options)
                cpu_s.append(time.process_time() - began)
                wall_s.append(time.perf_counter() - wall)
                assert result.events == NEW, result
                assert not result.failed_checks, result.failed_checks
    # The first one is warming up.
    return Measured(events, cpu_s[1:], wall_s[1:], build_s)


def _tell(store: Redis, number: int) -> None:
    """What streams tell of jobs that are added and done; every fifth is tried twice."""
    told = store.pipeline(transaction=False)
    left, job = NEW, 0
    while left:
        queue, subject = f"q{job % past.QUEUES}", f"n{number}-{job}"
        story: list[dict[str, str]] = [
            {"event": "added", "name": "charge"},
            {"event": "waiting"},
            {"event": "active", "prev": "waiting"},
        ]
        if job % 5 == 0:
            why = f"TimeoutError: shop a gave no answer to {job}"
            story += [
                {"event": "delayed", "delay": "100"},
                {"event": "retry", "attemptsMade": "1", "failedReason": why},
                {"event": "waiting", "prev": "delayed"},
                {"event": "active", "prev": "waiting"},
            ]
        story += [{"event": "completed", "returnvalue": "1", "prev": "active"}]
        told.hset(f"bull:{queue}:{subject}", mapping={"name": "charge", "data": DATA, "opts": "{}"})
        # The last one may be cut off, and stays open.
        for each in story[:left]:
            told.xadd(f"bull:{queue}:events", {**each, "jobId": subject})
        left -= min(left, len(story))
        if not left:
            told.lpush(f"bull:{queue}:wait", subject)
        job += 1
    told.execute()
