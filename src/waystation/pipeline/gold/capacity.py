"""Capacity: how many workers the arrivals of an hour ask for.

Arrivals at random, services of random length and c places to be served at: Erlang's formula says
how likely a newcomer finds all places taken, and how long the wait then is. A worker that holds n
jobs at a time has n places.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from waystation.pipeline.sketches import percentile
from waystation.pipeline.tables import CAPACITY

TARGET_WAIT_MS = 1_000
LATE = 0.05
"""The part of all waits that may be longer than the target."""
MOST = 5_000
"""Places beyond which nobody should plan by this formula."""
OF = ("line", "queue", "hour")
_HOUR_S = 3600.0


def capacity(
    steps: DataFrame, attempts: DataFrame, hourly: DataFrame, *, target_ms: int
) -> DataFrame:
    """One row for each queue and hour."""
    hours = hourly.select(*OF, percentile(F.col("run_sketch"), 0.95).alias("service_p95_ms"))
    return (
        _arrivals(steps)
        .join(_services(attempts), list(OF), "full")
        .join(hours, list(OF), "left")
        .withColumn("arrivals_per_s", F.coalesce("arrivals_per_s", F.lit(0.0)))
        .withColumn("seen_workers", F.coalesce("seen_workers", F.lit(0)))
        .withColumn("busy_workers", F.col("arrivals_per_s") * F.col("service_mean_ms") / 1000.0)
        .withColumn("target_wait_ms", F.lit(target_ms).cast("bigint"))
        .withColumn(
            "workers_needed",
            workers_needed(F.col("busy_workers"), F.col("service_mean_ms"), target_ms),
        )
        .select(*CAPACITY.names)
    )


def _arrivals(steps: DataFrame) -> DataFrame:
    """Whatever becomes ready is told to be waiting, the first time and after every retry."""
    hour = F.date_trunc("hour", "at")
    # Where an hour has only begun, what came is divided by what has passed of it.
    passed = (F.unix_millis(F.max("at")) - F.unix_millis(F.min(hour))) / 1000.0
    seconds = F.greatest(F.lit(60.0), F.least(F.lit(_HOUR_S), passed))
    return (
        steps.where(F.col("event") == "waiting")
        .groupBy("line", "queue", hour.alias("hour"))
        .agg((F.count("*") / seconds).alias("arrivals_per_s"))
    )


def _services(attempts: DataFrame) -> DataFrame:
    return attempts.groupBy("line", "queue", F.date_trunc("hour", "started_at").alias("hour")).agg(
        F.avg("run_ms").alias("service_mean_ms"),
        F.count_distinct("worker").alias("seen_workers"),
    )


def workers_needed(load: Column, service_ms: Column, target_ms: int) -> Column:
    """The fewest places with which only few wait longer than the target.

    `load` is the places kept busy on average. The chance that none of k places is free follows from
    that for k - 1, so one walk over k finds the answer.
    """
    start = F.struct(F.lit(1.0).alias("blocked"), F.lit(0).cast("bigint").alias("needed"))
    most = F.least(F.lit(MOST), F.ceil(load + 6 * F.sqrt(load) + 20)).cast("int")

    def one_more(so_far: Column, places: Column) -> Column:
        blocked = load * so_far["blocked"] / (places + load * so_far["blocked"])
        waits = blocked / (1 - load / places * (1 - blocked))
        too_long = waits * F.exp(-(places - load) * target_ms / F.greatest(service_ms, F.lit(1.0)))
        enough = (so_far["needed"] == 0) & (places > load) & (too_long <= LATE)
        return F.struct(
            blocked.alias("blocked"),
            F.when(enough, places.cast("bigint")).otherwise(so_far["needed"]).alias("needed"),
        )

    walked = F.aggregate(F.sequence(F.lit(1), F.greatest(F.lit(1), most)), start, one_more)
    # Beyond the walk, as many as are busy and a little more.
    needed = F.when(walked["needed"] > 0, walked["needed"]).otherwise(F.ceil(load * 1.05))
    return F.when(load.isNotNull(), needed).cast("bigint")
