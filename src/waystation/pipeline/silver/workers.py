"""Workers: one row for each worker and hour."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def workers(attempts: DataFrame) -> DataFrame:
    """What each worker did with what it took in each hour."""
    outcome = F.col("outcome")
    return (
        attempts.where(F.col("worker").isNotNull())
        .groupBy("line", "queue", "worker", F.date_trunc("hour", "started_at").alias("hour"))
        .agg(
            F.count("*").alias("attempts"),
            F.count_if(outcome == "completed").alias("completed"),
            F.count_if(outcome.isin("failed", "retried")).alias("failed"),
            F.count_if(outcome == "stalled").alias("stalled"),
            F.coalesce(F.sum("run_ms"), F.lit(0)).alias("busy_ms"),
            F.min("started_at").alias("first_at"),
            F.max(F.greatest("started_at", "ended_at")).alias("last_at"),
        )
    )
