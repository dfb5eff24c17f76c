"""Events folded into `attempts`, beside DuckDB doing the same over the same files as a measure.

Every size has processes of its own, so that the peak of one is not taken for that of another.
FOLD_EVENTS=100000,1000000 picks other sizes.
"""

import os
import statistics
import sys
import tempfile

import msgspec

from benchmarks.apart import apart
from benchmarks.pipeline.memory import PeakMemory
from benchmarks.pipeline.tree import Tree
from benchmarks.pipeline_fold import duck, events
from benchmarks.pipeline_fold.child import TRIED
from benchmarks.report import Report, Row
from benchmarks.turns import TIMES
from waystation.pipeline.silver.steps import PORTION
from waystation.pipeline.spark.session import PREFERRED

SIZES = tuple(int(size) for size in os.environ.get("FOLD_EVENTS", "1000000,10000000").split(","))


class Measured(msgspec.Struct, frozen=True):
    """What folding one size took, Spark and DuckDB in turn."""

    cpu_s: list[float]
    """Processor time of Spark's processes, with the classes and fingerprints of errors, which
    DuckDB cannot find."""
    wall_s: list[float]
    duck: list[duck.Folded]
    jvm_mb: float
    python_mb: float


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
    command = (sys.executable, "-m", "benchmarks.pipeline_fold.child", files, ours, str(size))
    cpu_s: list[float] = []
    wall_s: list[float] = []
    beside: list[duck.Folded] = []
    peaks: list[PeakMemory] = []
    with Tree(command, {}) as spark:
        spark.ask()
        for _ in range(TIMES):
            before = spark.cpu_s()
            with PeakMemory() as memory:
                wall_s.append(float(spark.ask("fold")))
            peaks.append(memory)
            cpu_s.append(spark.cpu_s() - before)
            beside.append(apart(duck.fold, files, theirs))
        spark.wait()
    wrong = apart(duck.differences, TRIED.path(ours), theirs)
    assert wrong == 0, f"Spark and DuckDB differ in {wrong:,} rows"
    return Measured(
        cpu_s,
        wall_s,
        beside,
        max(each.jvm_mb for each in peaks),
        max(each.python_mb for each in peaks),
    )


def _beside_duck(size: int, measured: Measured) -> Report:
    here, there = measured.cpu_s, [each.cpu_s for each in measured.duck]
    walls = _medians(measured.wall_s, [each.seconds for each in measured.duck])
    return Report(
        title=f"{size:,} events into attempts, written as Parquet",
        unit="Spark on local[2]",
        beside="DuckDB, 2 threads",
        rows=[
            Row("CPU seconds, median", *_medians(here, there)),
            Row("… in the first turn", here[0], there[0]),
            Row("seconds, median", *walls),
            Row("thousand events a second", *(size / each / 1e3 for each in walls)),
        ],
        remark=f"{TIMES} turns, in turn; what both wrote is equal. "
        "DuckDB cannot find classes and fingerprints; a third of the jobs have errors.",
    )


def _growth(measured: dict[int, Measured]) -> Report:
    (few, least), (many, most) = min(measured.items()), max(measured.items())
    duck_s = ([each.cpu_s for each in of.duck] for of in (most, least))
    duck_mb = (max(each.peak_mb for each in of.duck) for of in (most, least))
    return Report(
        title="How the fold grows with its events",
        unit=f"with {many:,}",
        beside=f"with {few:,}",
        rows=[
            Row("Spark, CPU seconds", *_medians(most.cpu_s, least.cpu_s)),
            Row("DuckDB, CPU seconds", *_medians(*duck_s)),
            Row("Spark's JVM, peak MB", most.jvm_mb, least.jvm_mb),
            Row("all its processes of Python, peak MB", most.python_mb, least.python_mb),
            Row("DuckDB, peak MB", *duck_mb),
        ],
        remark=f"driver and workers are one JVM with a heap of {PREFERRED['spark.driver.memory']}, "
        f"whose tasks hold {PORTION:,} steps each in a process of Python; "
        "aim: bounded, though there are ten times as many events",
    )


def _medians(*turns: list[float]) -> list[float]:
    return [statistics.median(each) for each in turns]
