"""Whole runs on one, two and four executors of a standalone cluster on this machine.

Each number of executors, of one core each, has a driver of its own that stays for all turns; they
do the same work in turn. SCALE_EVENTS=10000000 picks another size, SCALE_TIMES=1 fewer turns.
"""

import os
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession
from redis import Redis

from benchmarks.pipeline.streams import fill
from benchmarks.pipeline_scale.cluster import Cluster, cluster
from benchmarks.pipeline_scale.processes import cpu_s
from benchmarks.report import Report, Row
from benchmarks.turns import TIMES, medians
from waystation.core.store import embedded
from waystation.pipeline.history import History
from waystation.pipeline.runner import RunOptions
from waystation.pipeline.runner import run as run_pipeline
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.spark.session import SessionOptions, register, start_session
from waystation.pipeline.storage import delta
from waystation.pipeline.tables import EVENTS, ITEMS

MANY = int(os.environ.get("SCALE_EVENTS", "2000000"))
TURNS = int(os.environ.get("SCALE_TIMES", str(TIMES)))
EXECUTORS = (1, 2, 4)


class Turn(msgspec.Struct, frozen=True):
    """One whole run: from the streams to the last gold table."""

    seconds: float
    tasks_s: float
    """Processor time of the executors and their Python processes."""
    driver_s: float
    """Processor time of the driver, its Java included."""


def run() -> list[Report]:
    """Streams into all tables of a new history, on more and more executors."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(embedded.ephemeral())
        with Redis.from_url(server.url, protocol=2) as client:
            fill(client, MANY)
        # Each driver keeps its executors, and all but one set of them are idle.
        master = stack.enter_context(cluster(folder, cores=sum(EXECUTORS)))
        drivers = [stack.enter_context(Driver(master, many)) for many in EXECUTORS]
        # The first turns, in which Java compiles, do not count if there are others.
        turns = [[each.run(server.url) for each in drivers] for _ in range(1 + TURNS)]
        one, *more = (_median(each) for each in zip(*turns[min(1, TURNS) :], strict=True))
    return [_report(many, turn, one) for many, turn in zip(EXECUTORS[1:], more, strict=True)]


class Driver:
    """A process with a session that has so many executors of one core."""

    def __init__(self, master: Cluster, executors: int) -> None:
        self._master = master
        given = (master.url, executors)
        self._pool = ProcessPoolExecutor(1, get_context("spawn"), _start, given)
        self._pid = self._pool.submit(os.getpid).result()

    def __enter__(self) -> "Driver":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.submit(_stop).result()
        self._pool.shutdown()

    def run(self, url: str) -> Turn:
        """Run the pipeline once, into a new history."""
        tasks, driver = cpu_s(self._master.worker), cpu_s(self._pid)
        seconds = self._pool.submit(_run, url).result()
        return Turn(seconds, cpu_s(self._master.worker) - tasks, cpu_s(self._pid) - driver)


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
    # As many tasks for one executor as for four.
    partitions = 2 * max(EXECUTORS)
    register(start_session(SessionOptions(master=master, shuffle_partitions=partitions, conf=conf)))


def _session() -> SparkSession:
    spark = SparkSession.getActiveSession()
    assert spark is not None
    return spark


def _stop() -> None:
    _session().stop()


def _run(url: str) -> float:
    options = RunOptions(events=EventOptions(url=url), write_back=False)
    with tempfile.TemporaryDirectory() as root:
        began = time.perf_counter()
        result = run_pipeline(History(_session, root), options)
        took = time.perf_counter() - began
        assert result.failed_checks == (), result
        assert delta.count(EVENTS.path(root)) == MANY
        assert delta.count(ITEMS.path(root)) == MANY // 4
    return took


def _median(turns: Iterable[Turn]) -> Turn:
    return Turn(*medians([msgspec.structs.astuple(each) for each in turns]))


def _report(executors: int, turn: Turn, one: Turn) -> Report:
    return Report(
        title=f"{MANY:,} events of 8 streams into all tables",
        unit=f"{executors} executors",
        beside="one executor",
        rows=[
            Row("thousand events a second", MANY / turn.seconds / 1e3, MANY / one.seconds / 1e3),
            Row("processor seconds of executors", turn.tasks_s, one.tasks_s),
            Row("processor seconds of the driver", turn.driver_s, one.driver_s),
            Row("share of executors", _share(turn), _share(one)),
        ],
        remark=f"median of {max(1, TURNS)}, in turn; driver, executors, Python and the store share "
        f"{os.cpu_count()} processors: more executors can take only what one leaves idle",
    )


def _share(turn: Turn) -> float:
    return turn.tasks_s / (turn.tasks_s + turn.driver_s)
