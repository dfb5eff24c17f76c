"""Hourly: counts, waits and run times of each queue by the hour."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from waystation.pipeline.gold.sketches import percentile, sketch
from waystation.pipeline.tables import HOURLY

HOUR_S = 3600
OF = ("line", "queue", "hour")


def hourly(steps: DataFrame, attempts: DataFrame) -> DataFrame:
    """One row for each queue and hour.

    Additions, claims and ends count in the hour they happened; outcomes and times of attempts in
    the hour they were claimed.
    """
    joined = _counts(steps).join(_times(attempts), list(OF), "full")
    zero = ("added", "started", "completed", "failed", "retried", "stalled")
    return joined.select(
        *OF,
        *(F.coalesce(name, F.lit(0)).alias(name) for name in zero),
        *_percentiles("wait"),
        *_percentiles("run"),
        ((F.coalesce("completed", F.lit(0)) + F.coalesce("failed", F.lit(0))) / HOUR_S).alias(
            "throughput"
        ),
        "wait_sketch",
        "run_sketch",
    ).select(*HOURLY.names)


def _counts(steps: DataFrame) -> DataFrame:
    event = F.col("event")
    # A dead letter that failed in the same instant has two events.
    failing = F.when(event.isin("failed", "dead"), F.struct("subject", "told_at"))
    return steps.groupBy("line", "queue", F.date_trunc("hour", "at").alias("hour")).agg(
        F.count_if(F.col("birth")).alias("added"),
        F.count_if(event == "active").alias("started"),
        F.count_if(event == "completed").alias("completed"),
        F.count_distinct(failing).alias("failed"),
    )


def _times(attempts: DataFrame) -> DataFrame:
    outcome = F.col("outcome")
    return attempts.groupBy("line", "queue", F.date_trunc("hour", "started_at").alias("hour")).agg(
        F.count_if(outcome == "retried").alias("retried"),
        F.count_if(outcome == "stalled").alias("stalled"),
        sketch(F.col("wait_ms")).alias("wait_sketch"),
        sketch(F.col("run_ms")).alias("run_sketch"),
    )


def _percentiles(of: str) -> list[Column]:
    return [
        percentile(F.col(f"{of}_sketch"), part).alias(f"{of}_p{name}_ms")
        for name, part in (("50", 0.5), ("95", 0.95), ("99", 0.99))
    ]
