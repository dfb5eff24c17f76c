"""Folding events into `attempts` and `hourly`, beside DuckDB doing the same over the same files."""

import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.report import Report, Row
from waystation.pipeline.gold.hourly import hourly
from waystation.pipeline.session import SessionOptions, build
from waystation.pipeline.silver.attempts import attempts, rows
from waystation.pipeline.silver.steps import lived, steps
from waystation.pipeline.tables import EVENTS

SIZES = tuple(int(size) for size in os.environ.get("FOLD_EVENTS", "1000000,10000000").split(","))
EVENTS_A_JOB = 5
"""added, waiting, active, and on average a little more than two others."""
TIMES = 3

_DUCK = """
with step as (
    select line, queue, subject, told_at, seq, "at", event, worker,
           sum((event = 'active')::int) over w as attempt,
           last_value(case when event in ('added', 'waiting', 'retry', 'stalled')
                      then "at" end ignore nulls)
               over (partition by line, queue, subject order by told_at, seq
                     rows between unbounded preceding and 1 preceding) as ready
    from read_parquet('{files}')
    where event in ('added', 'waiting', 'delayed', 'active', 'retry', 'completed', 'failed')
    window w as (partition by line, queue, subject order by told_at, seq)
)
select line, queue, subject, attempt,
       min(case when event = 'active' then "at" end) as started_at,
       min(case when event = 'active' then ready end) as ready_at,
       min(case when event <> 'active' then "at" end) as ended_at,
       arg_min(event, (told_at, seq)) filter (event in ('completed', 'failed', 'retry')) as told,
       min(case when event = 'active' then worker end) as worker
from step where attempt > 0 group by all
"""

_DUCK_HOURLY = """
select line, queue, date_trunc('hour', started_at) as hour, count(*) as started,
       count_if(told = 'completed') as completed, count_if(told = 'retry') as retried,
       count_if(told = 'failed') as failed,
       approx_quantile(epoch_ms(started_at) - epoch_ms(ready_at), [0.5, 0.95, 0.99]) as wait,
       approx_quantile(epoch_ms(ended_at) - epoch_ms(started_at), [0.5, 0.95, 0.99]) as run
from attempts group by all
"""


def run() -> list[Report]:
    spark = build(
        SessionOptions(
            master="local[2]",
            shuffle_partitions=4,
            driver_memory="4g",
            conf={"spark.log.level": "OFF"},
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        return [_beside(spark, Path(folder), size) for size in SIZES]


def _beside(spark: SparkSession, folder: Path, size: int) -> Report:
    files = folder / f"events-{size}"
    _told(spark, size).write.mode("overwrite").parquet(str(files))
    spark_s: list[float] = []
    duck_s: list[float] = []
    for turn in range(TIMES if size <= 2_000_000 else 1):
        out = folder / f"{size}-{turn}"
        spark_s.append(_timed(partial(_spark, spark, files, out / "spark")))
        duck_s.append(_timed(partial(_duck, files, out / "duck")))
    here, there = statistics.median(spark_s), statistics.median(duck_s)
    return Report(
        title=f"{size:,} events into attempts and hourly, written as Parquet",
        unit="Spark local[2]",
        beside="DuckDB, 2 threads",
        rows=[
            Row("seconds, median", here, there),
            Row("seconds, first turn", spark_s[0], duck_s[0]),
            Row("thousand events a second", size / here / 1e3, size / there / 1e3),
        ],
        remark=f"{len(spark_s)} turns, one after the other; peak of the driver's Java "
        f"{_peak_mb(spark):,.0f} MB, of this process {_own_peak_mb():,.0f} MB. On one machine "
        "DuckDB wins; Spark is here for exactly-once streams and for more machines than one.",
    )


def _told(spark: SparkSession, size: int) -> DataFrame:
    """Made-up events of many jobs, some of which fail and are tried again."""
    jobs = size // EVENTS_A_JOB
    fate = F.pmod(F.hash("id"), F.lit(100))
    first = ["added", "waiting", "active"]
    good, again = [*first, "completed"], [*first, "delayed", "retry", "waiting", "active"]
    story = F.when(fate < 70, F.array(*map(F.lit, good))).when(
        fate < 97, F.array(*map(F.lit, [*again, "completed"]))
    )
    story = story.otherwise(F.array(*map(F.lit, [*again, "failed"])))
    told = spark.range(jobs).select("id", F.posexplode(story).alias("nth", "event"))
    start = 1_790_000_000_000
    millis = F.lit(start) + F.col("id") * 20 + F.col("nth") * (1 + F.pmod(F.hash("id"), F.lit(900)))
    at = F.timestamp_millis(millis)
    is_active = F.col("event") == "active"
    worker = F.when(is_active, F.concat(F.lit("w"), F.pmod("id", F.lit(16))))
    reason = F.create_map(F.lit("failedReason"), F.concat(F.lit("no answer to "), F.col("id")))
    columns: dict[str, Any] = {
        "line": F.lit("bullmq"),
        "queue": F.concat(F.lit("q"), F.pmod("id", F.lit(8))),
        "stream": F.concat(F.lit("bull:q"), F.pmod("id", F.lit(8)), F.lit(":events")),
        "entry_id": F.concat_ws("-", millis, "id"),
        "seq": F.col("id"),
        "told_at": at,
        "at": at,
        "event": F.col("event"),
        "subject": F.col("id").cast("string"),
        "attempt": F.lit(None).cast("int"),
        "worker": worker,
        "fields": F.when(F.col("event").isin("retry", "failed"), reason),
        "version": F.lit(1),
        "_corrupt": F.lit(None).cast("string"),
        "date": F.to_date(at),
    }
    return told.select(*(columns[name].alias(name) for name in EVENTS.names))


def _spark(spark: SparkSession, files: Path, out: Path) -> None:
    moves = steps(spark.read.schema(EVENTS.schema).parquet(str(files)))
    tried = rows(attempts(lived(moves)))
    tried.write.mode("overwrite").parquet(f"{out}/attempts")
    kept = spark.read.schema(tried.schema).parquet(f"{out}/attempts")
    hourly(moves, kept).write.mode("overwrite").parquet(f"{out}/hourly")


def _duck(files: Path, out: Path) -> None:
    out.mkdir(parents=True)
    with duckdb.connect(config={"threads": 2}) as db:
        fold = _DUCK.format(files=f"{files}/*.parquet")
        db.execute(f"copy ({fold}) to '{out}/attempts.parquet'")
        db.execute(f"create view attempts as from read_parquet('{out}/attempts.parquet')")
        db.execute(f"copy ({_DUCK_HOURLY}) to '{out}/hourly.parquet'")


def _timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _peak_mb(spark: SparkSession) -> float:
    jvm: Any = spark.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    pid = int(jvm.java.lang.ProcessHandle.current().pid())
    status = Path(f"/proc/{pid}/status")
    lines = status.read_text().splitlines() if status.exists() else []
    peaks = [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
    return peaks[0] / 1024 if peaks else 0.0


def _own_peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
