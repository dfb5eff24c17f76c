"""Failures: what goes wrong, each kind once, and whether trying again helps."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from waystation.pipeline.silver.failing import signature
from waystation.pipeline.silver.steps import WHO
from waystation.pipeline.tables import FAILURES

EXAMPLES = 5
_HOUR_S = 3600.0


def failures(attempts: DataFrame) -> DataFrame:
    """One row for each kind of failure of each queue."""
    failed = attempts.where(F.col("fingerprint").isNotNull())
    # Of what failed, what came to a good end later.
    good = (
        attempts.where(F.col("outcome") == "completed")
        .groupBy(*WHO)
        .agg(F.max("started_at").alias("good_at"))
    )
    few = Window.partitionBy("line", "queue", "fingerprint").orderBy("subject")
    fates = (
        failed.groupBy(*WHO, "fingerprint")
        .agg(
            F.count("*").alias("attempts"),
            F.count_if(F.col("outcome") == "retried").alias("retried"),
            F.min("started_at").alias("first_at"),
            F.max("started_at").alias("last_at"),
            F.min("reason").alias("reason"),
            F.first("error_class", ignorenulls=True).alias("error_class"),
        )
        .join(good, list(WHO), "left")
        .withColumn("rank", F.row_number().over(few))
        .withColumn("recovered", (F.col("retried") > 0) & (F.col("good_at") > F.col("first_at")))
    )
    hours = F.greatest(
        F.lit(1.0), (F.unix_seconds("last_at") - F.unix_seconds("first_at")) / F.lit(_HOUR_S)
    )
    return (
        fates.groupBy("line", "queue", "fingerprint")
        .agg(
            signature(F.min("reason")).alias("signature"),
            F.first("error_class", ignorenulls=True).alias("error_class"),
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
