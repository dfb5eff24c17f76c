"""One executor and two, each with one core, on a standalone cluster on this machine.

Each has a driver of its own that stays for the whole run; they do the same work in turn.
SCALE_EVENTS=5000000 picks another size.
"""

import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession
from redis import Redis

from benchmarks import pipeline_fold
from benchmarks.apart import apart
from benchmarks.pipeline.streams import fill
from benchmarks.pipeline_fold import events
from benchmarks.pipeline_scale.cluster import cluster
from benchmarks.report import Report, Row
from benchmarks.turns import TIMES, medians
from waystation.core.store import embedded
from waystation.pipeline.bronze import ingest
from waystation.pipeline.spark.session import SessionOptions, start_session
from waystation.pipeline.storage import delta
from waystation.pipeline.tables import EVENTS

MANY = int(os.environ.get("SCALE_EVENTS", "2000000"))
MOST = 2


class Turn(NamedTuple):
    """One turn: its seconds, and how many processors of the machine were busy."""

    seconds: float
    busy: float


def run() -> list[Report]:
    """Streams into the bronze table, and events into attempts and hourly."""
    with tempfile.TemporaryDirectory() as name, embedded.ephemeral() as server:
        files = f"{name}/events"
        apart(events.write, files, MANY)
        with Redis.from_url(server.url, protocol=2) as client:
            fill(client, MANY)
        # Both drivers keep their executors, of which one set is idle.
        with (
            cluster(Path(name), cores=1 + MOST) as master,
            Driver(master, 1) as one,
            Driver(master, MOST) as two,
        ):
            read = _in_turn(one, two, lambda each: each.read(server.url))
            folded = _in_turn(one, two, lambda each: each.fold(files, f"{name}/folded"))
    return [
        _report(f"{MANY:,} events of 8 streams into the bronze table", *read),
        _report(f"{MANY:,} events into attempts and hourly, written as Parquet", *folded),
    ]


class Driver:
    """A process with a session that has so many executors of one core."""

    def __init__(self, master: str, executors: int) -> None:
        self._pool = ProcessPoolExecutor(1, get_context("spawn"), _start, (master, executors))

    def __enter__(self) -> "Driver":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.submit(_stop).result()
        self._pool.shutdown()

    def read(self, url: str) -> Turn:
        """Read the streams into a new history."""
        return self._pool.submit(_read, url).result()

    def fold(self, files: str, out: str) -> Turn:
        """Fold the events of files."""
        return self._pool.submit(_fold, files, out).result()


def _start(master: str, executors: int) -> None:
    conf = {
        "spark.log.level": "OFF",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.cores": "1",
        "spark.executor.memory": "1g",
        "spark.cores.max": str(executors),
        # Nothing begins before all executors are there.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
    }
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    # As many tasks for one executor as for two.
    start_session(SessionOptions(master=master, shuffle_partitions=2 * MOST, conf=conf))


def _session() -> SparkSession:
    spark = SparkSession.getActiveSession()
    assert spark is not None
    return spark


def _stop() -> None:
    _session().stop()


def _read(url: str) -> Turn:
    with tempfile.TemporaryDirectory() as root:
        turn = _measured(lambda: ingest.start(_session(), root, url=url, tasks=str(MOST)).finish())
        assert delta.count(EVENTS.path(root)) == MANY
    return turn


def _fold(files: str, out: str) -> Turn:
    return _measured(lambda: pipeline_fold.fold(_session(), files, out))


def _measured(work: Callable[[], object]) -> Turn:
    began, busy = time.perf_counter(), _busy_s()
    work()
    took = time.perf_counter() - began
    return Turn(took, (_busy_s() - busy) / took)


def _busy_s() -> float:
    """Seconds that all processors of the machine have worked."""
    with open("/proc/stat", encoding="ascii") as stat:
        user, nice, system, _, _, interrupts, soft, *_ = map(int, stat.readline().split()[1:])
    return (user + nice + system + interrupts + soft) / os.sysconf("SC_CLK_TCK")


def _in_turn(one: Driver, two: Driver, work: Callable[[Driver], Turn]) -> tuple[Turn, Turn]:
    """The medians of both; their first turns, in which Java compiles, do not count."""
    turns = [(work(one), work(two)) for _ in range(1 + TIMES)][1:]
    seconds = medians([[each.seconds for each in pair] for pair in turns])
    busy = medians([[each.busy for each in pair] for pair in turns])
    single, double = map(Turn, seconds, busy)
    return single, double


def _report(title: str, one: Turn, two: Turn) -> Report:
    return Report(
        title=title,
        unit="two executors",
        beside="one executor",
        rows=[
            Row("thousand events a second", MANY / two.seconds / 1e3, MANY / one.seconds / 1e3),
            Row("processors busy", two.busy, one.busy),
        ],
        remark=f"median of {TIMES}, in turn; driver, executors, Python and the store share "
        f"{os.cpu_count()} processors: a second executor can take only what one leaves idle",
    )
