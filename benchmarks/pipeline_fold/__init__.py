"""Events folded into `attempts`, beside DuckDB doing the same over the same files as a measure.

Every size has processes of its own, so that the peak of one is not taken for that of another.
FOLD_EVENTS=100000,1000000 picks other sizes.
"""

import os
import resource
import shutil
import statistics
import tempfile
import time

import msgspec
from pyspark.sql import SparkSession

from benchmarks.apart import apart
from benchmarks.pipeline.memory import PeakMemory
from benchmarks.pipeline_fold import duck, events
from benchmarks.report import Report, Row
from benchmarks.turns import TIMES
from waystation.pipeline.silver import lives
from waystation.pipeline.silver.moves import STEPS
from waystation.pipeline.silver.steps import PORTION, steps
from waystation.pipeline.spark.session import PREFERRED, SessionOptions, start_session
from waystation.pipeline.storage import task_files
from waystation.pipeline.storage.sessions import sized
from waystation.pipeline.tables import ATTEMPTS, EVENTS

SIZES = tuple(int(size) for size in os.environ.get("FOLD_EVENTS", "1000000,10000000").split(","))

TRIED = msgspec.structs.replace(ATTEMPTS, partitions=())
"""Attempts in one folder, as DuckDB writes them."""


class Measured(msgspec.Struct, frozen=True):
    """What folding one size took, Spark and DuckDB in turn."""

    spark_s: list[float]
    """With the classes and fingerprints of errors, which DuckDB cannot find."""
    duck_s: list[float]
    jvm_mb: float
    python_mb: float
    duck_mb: float


def run() -> list[Report]:
    """How long each size takes, and how that and the memory grow from the first to the last."""
    measured = {size: _measured(size) for size in SIZES}
    return [*(_beside_duck(size, each) for size, each in measured.items()), _growth(measured)]


def _measured(size: int) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        apart(events.write, f"{folder}/events", size)
        return apart(_in_turn, folder, size)


def _in_turn(folder: str, size: int) -> Measured:
    files, ours, theirs = (f"{folder}/{name}" for name in ("events", "spark", "duck"))
    spark = start_session(SessionOptions(master="local[2]", conf={"spark.log.level": "OFF"}))
    spark_s: list[float] = []
    beside: list[duck.Folded] = []
    with PeakMemory() as memory:
        for _ in range(TIMES):
            spark_s.append(fold(spark, files, ours, size))
            beside.append(apart(duck.fold, files, theirs))
    wrong = apart(duck.differences, TRIED.path(ours), theirs)
    assert wrong == 0, f"Spark and DuckDB differ in {wrong:,} rows"
    spark.stop()
    return Measured(
        spark_s,
        [each.seconds for each in beside],
        memory.jvm_mb,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        max(each.peak_mb for each in beside),
    )


def fold(spark: SparkSession, files: str, out: str, size: int) -> float:
    """Fold the events of files into attempts; the seconds."""
    began = time.perf_counter()
    shutil.rmtree(out, ignore_errors=True)
    stored = steps(spark.read.schema(EVENTS.schema).parquet(files))
    nothing = spark.createDataFrame([], STEPS.schema)
    with sized(spark, size):
        tried = lives.rows(nothing, stored)
        task_files.write_made(lives.changes, tried, out, {"added_attempts": TRIED})
    return time.perf_counter() - began


def _beside_duck(size: int, measured: Measured) -> Report:
    here, there = _medians(measured.spark_s, measured.duck_s)
    return Report(
        title=f"{size:,} events into attempts, written as Parquet",
        unit="Spark on local[2]",
        beside="DuckDB, 2 threads",
        rows=[
            Row("seconds, median", here, there),
            Row("thousand events a second", size / here / 1e3, size / there / 1e3),
            Row("… in the first turn", measured.spark_s[0], measured.duck_s[0]),
        ],
        remark=f"{TIMES} turns, in turn; what both wrote is equal. "
        "DuckDB cannot find classes and fingerprints; a third of the jobs have errors.",
    )


def _growth(measured: dict[int, Measured]) -> Report:
    (few, least), (many, most) = min(measured.items()), max(measured.items())
    return Report(
        title="How the fold grows with its events",
        unit=f"with {many:,}",
        beside=f"with {few:,}",
        rows=[
            Row("Spark, seconds", *_medians(most.spark_s, least.spark_s)),
            Row("DuckDB, seconds", *_medians(most.duck_s, least.duck_s)),
            Row("Spark's JVM, peak MB", most.jvm_mb, least.jvm_mb),
            Row("the driver's Python, peak MB", most.python_mb, least.python_mb),
            Row("DuckDB, peak MB", most.duck_mb, least.duck_mb),
        ],
        remark=f"driver and workers are one JVM with a heap of {PREFERRED['spark.driver.memory']}, "
        f"whose tasks hold {PORTION:,} steps each in a process of Python; "
        "aim: bounded, though there are ten times as many events",
    )


def _medians(*turns: list[float]) -> list[float]:
    return [statistics.median(each) for each in turns]
