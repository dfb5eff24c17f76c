"""Failures: the most frequent signatures of each queue, and whether retries help."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from waystation.pipeline.silver.fingerprints import signature
from waystation.pipeline.silver.steps import SUBJECT
from waystation.pipeline.tables import FAILURES

EXAMPLES = 5
MOST_KINDS = 100
"""Signatures of one queue that have a row of their own: the most frequent ones."""
OTHER = "other"
"""The fingerprint of the row for all others."""
_HOUR_S = 3600.0
_KIND = ("line", "queue", "fingerprint")


def failures(attempts: DataFrame, *, most: int = MOST_KINDS) -> DataFrame:
    """One row for each of the most frequent signatures of each queue, and one for the rest.

    Every attempt that failed is counted in one of them.
    """
    failed = _named(attempts.where(F.col("fingerprint").isNotNull()), most)
    # When each subject last completed.
    good = (
        attempts.where(F.col("outcome") == "completed")
        .groupBy(*SUBJECT)
        .agg(F.max("started_at").alias("good_at"))
    )
    few = Window.partitionBy(*_KIND).orderBy("subject")
    fates = (
        failed.groupBy(*SUBJECT, "fingerprint")
        .agg(
            F.count("*").alias("attempts"),
            F.count_if(F.col("outcome") == "retried").alias("retried"),
            F.min("started_at").alias("first_at"),
            F.max("started_at").alias("last_at"),
            F.min("reason").alias("reason"),
            F.first("error_class", ignorenulls=True).alias("error_class"),
            F.first("kinds").alias("kinds"),
        )
        .join(good, list(SUBJECT), "left")
        .withColumn("rank", F.row_number().over(few))
        .withColumn("recovered", (F.col("retried") > 0) & (F.col("good_at") > F.col("first_at")))
    )
    hours = F.greatest(
        F.lit(1.0), (F.unix_seconds("last_at") - F.unix_seconds("first_at")) / F.lit(_HOUR_S)
    )
    is_other = F.col("fingerprint") == OTHER
    return (
        fates.groupBy(*_KIND)
        .agg(
            F.when(~is_other, signature(F.min("reason"))).alias("signature"),
            F.when(~is_other, F.first("error_class", ignorenulls=True)).alias("error_class"),
            F.first("kinds").alias("kinds"),
            F.min("first_at").alias("first_at"),
            F.max("last_at").alias("last_at"),
            F.sum("attempts").alias("attempts"),
            F.count("*").alias("subjects"),
            F.array_sort(F.collect_list(F.when(F.col("rank") <= EXAMPLES, F.col("subject")))).alias(
                "examples"
            ),
            F.sum("retried").alias("retried"),
            F.count_if(F.col("recovered")).alias("recovered"),
            F.count_if(F.col("retried") > 0).alias("tried"),
        )
        .withColumn("per_hour", F.col("attempts") / hours)
        .withColumn("retry_helps", F.when(F.col("tried") > 0, F.col("recovered") / F.col("tried")))
        .select(*FAILURES.names)
    )


def label(row: Mapping[str, Any]) -> str:
    """The text of a row in reports."""
    if row["fingerprint"] == OTHER:
        return f"{row['kinds']:,} other kinds of failure"
    return row["signature"] or "no error message"


def _named(failed: DataFrame, most: int) -> DataFrame:
    """Failed attempts with the fingerprint of their row, and how many signatures it stands for.

    Messages whose values cannot be told from words make a signature each; most of these occur once
    and end up in the row for all others.
    """
    counted = failed.groupBy(*_KIND).agg(F.count("*").alias("many"))
    rank = Window.partitionBy("line", "queue").orderBy(F.col("many").desc(), "fingerprint")
    ranked = counted.withColumn("rank", F.row_number().over(rank))
    is_own = F.col("rank") <= most
    kinds = ranked.select(
        *_KIND,
        F.when(is_own, F.col("fingerprint")).otherwise(F.lit(OTHER)).alias("named"),
        F.when(is_own, F.lit(1))
        .otherwise(F.max("rank").over(Window.partitionBy("line", "queue")) - most)
        .cast("bigint")
        .alias("kinds"),
    )
    joined = failed.join(kinds, list(_KIND))
    return joined.drop("fingerprint").withColumnRenamed("named", "fingerprint")
