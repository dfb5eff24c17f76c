"""A driver of its own that a test may kill, and what it runs.

`python -m tests.pipeline.drill follow ROOT` keeps the events of the streams until it is killed.
"""

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pyspark.sql import SparkSession

from tests.pipeline.conftest import SMALL
from waystation.files.directory.scan import ScanOptions
from waystation.files.producer import ProducerOptions
from waystation.pipeline import file_scan
from waystation.pipeline.bronze import ingest
from waystation.pipeline.bronze.ingest import commit
from waystation.pipeline.file_scan import ScanRules
from waystation.pipeline.spark.session import SessionOptions, build_session, register

PROJECT = Path(__file__).parents[2]
URL = "WAYSTATION_STORE__URL"
DIES = "WAYSTATION_DRILL_DIES"
"""When the driver is to die: `before` or `after` the commit of a batch, as in `before 3`."""
ROWS = 20_000
FILES = 4_000


class Driver:
    """A Spark driver in a process group of its own."""

    def __init__(
        self, what: str, place: str, url: str, *, dies: str = "", python: str = sys.executable
    ) -> None:
        self._process = subprocess.Popen(
            [python, "-m", "tests.pipeline.drill", what, place],
            cwd=PROJECT,
            env={
                **os.environ,
                URL: url,
                DIES: dies,
                "PYSPARK_PYTHON": python,
                "PYSPARK_DRIVER_PYTHON": python,
                "PYTHONPATH": os.pathsep.join([str(PROJECT), os.environ.get("PYTHONPATH", "")]),
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End it, its JVM and its workers at once, if it has not ended."""
        if self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()

    def kill_a_worker(self, dice: random.Random) -> bool:
        """End one of the Python processes that do its tasks; False when there is none."""
        workers = [
            pid for pid in descendants(self._process.pid) if " pyspark.worker" in command_line(pid)
        ]
        if not workers:
            return False
        os.kill(dice.choice(workers), signal.SIGKILL)
        return True

    def wait(self, *, killed: bool) -> None:
        """Wait until it ends, by itself or by its own hand."""
        _, said = self._process.communicate()
        wanted = -signal.SIGKILL if killed else 0
        assert self._process.returncode == wanted, said[-4000:]

    def wait_for(self, done: Callable[[], bool]) -> None:
        """Wait until something has come of it."""
        while not done():
            assert self._process.poll() is None, self._process.communicate()[1][-4000:]
            time.sleep(0.05)


def descendants(leader: int) -> list[int]:
    """The processes that descend from one."""
    found = [leader]
    for pid in found:
        try:
            for task in Path(f"/proc/{pid}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            continue
    return found


def command_line(pid: int) -> str:
    """What a process was started with; nothing when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


turns = itertools.count()
"""The batches of this driver."""


def dying(root: str, rows: Sequence[Mapping[str, Any]]) -> int:
    """Commit a batch, by a driver that dies at a chosen moment."""
    when, _, number = os.environ[DIES].partition(" ")
    turn = next(turns)

    def die_if(now: str) -> None:
        if when == now and turn >= int(number):
            os.killpg(os.getpgid(0), signal.SIGKILL)

    die_if("before")
    stored = commit(root, rows)
    die_if("after")
    return stored


def session() -> SparkSession:
    # A task may fail three times, as on a cluster.
    spark = build_session(
        SessionOptions(master="local[2,4]", shuffle_partitions=2, conf=SMALL.conf)
    )
    if os.environ[DIES]:
        ingest.commit = dying
    return spark


def follow(root: str) -> None:
    """Keep the events, in small batches, for as long as it lives."""
    ingest.start(session(), root, every="0 seconds", perTrigger="1000").finish()


def plant(tree: Path) -> int:
    """Make a tree of files that have settled; how many."""
    for number in range(FILES):
        file = tree / f"{number % 40}" / f"{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        os.utime(file, (1, 1))
    return FILES


def scan_tree(spark: SparkSession, tree: str, url: str) -> None:
    """Add the files of a tree."""
    rules = ScanRules(url=url, producer=ProducerOptions(scan=ScanOptions(scan_dir=tree)))
    file_scan.scan_tree(spark, rules)


def enqueue(spark: SparkSession, batch: str, url: str) -> None:
    """Add rows to a queue, every one of them twice."""
    register(spark)
    rows = spark.range(0, ROWS, 1, 4).selectExpr("concat('k', id) AS key", "'send' AS name")
    twice = rows.union(rows)
    options = {"queue": "bulk", "batch": batch, "chunk": "50", "url": url}
    twice.write.format("waystation.jobs").options(**options).mode("append").save()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["follow", root]:
            follow(root)
        case ["scan", tree]:
            scan_tree(session(), tree, os.environ[URL])
        case ["enqueue", batch]:
            enqueue(session(), batch, os.environ[URL])
        case _:
            sys.exit(__doc__)
