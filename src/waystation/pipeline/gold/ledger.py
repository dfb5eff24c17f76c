"""The ledger: every job that was added has ended, is in the queue, was removed, or is lost.

The snapshot of the queues must be taken before the events are read: then a job that is not in it
had ended by then, and its end is among the events. A job with neither is lost.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from waystation.pipeline.silver.moves import ENDED
from waystation.pipeline.tables import LEDGER

LOST = "lost"
"""The fate of a job that is neither in its queue nor ended nor removed."""
EXAMPLES = 20
OF = ("line", "queue", "hour")


def ledger(items: DataFrame, gaps: DataFrame, missing: DataFrame | None) -> DataFrame:
    """One row for each queue and hour of arrival; `missing` is None without a snapshot."""
    accounts = _arrivals(items).join(_gone(gaps), list(OF), "full")
    if missing is None:
        unknown = F.lit(None)
        counted = accounts.withColumns(
            {"lost": unknown.cast("bigint"), "lost_ids": unknown.cast("array<string>")}
        )
    else:
        counted = (
            accounts.join(_missing(missing), list(OF), "left")
            .withColumn("lost", F.coalesce("lost", F.lit(0)))
            .withColumn("removed", F.col("removed") + F.coalesce("silently", F.lit(0)))
        )
    zero = ("acknowledged", "terminal", "removed", "duplicated", "gaps")
    ended = F.col("terminal") + F.col("removed") + F.col("lost")
    return (
        counted.withColumns({name: F.coalesce(name, F.lit(0)) for name in zero})
        .withColumn("visible", F.col("acknowledged") - ended)
        .withColumn("lost_ids", F.coalesce("lost_ids", F.array().cast("array<string>")))
        .withColumn(
            "clean",
            (F.col("lost") == 0) & (F.col("duplicated") == 0) & (F.col("gaps") == 0),
        )
        .select(*LEDGER.names)
    )


def _arrivals(items: DataFrame) -> DataFrame:
    state = F.col("state")
    return items.groupBy("line", "queue", arrival().alias("hour")).agg(
        F.count("*").alias("acknowledged"),
        F.count_if(state.isin(*ENDED) & (state != "removed")).alias("terminal"),
        F.count_if(state == "removed").alias("removed"),
        F.count_if(F.col("duplicates") > 0).alias("duplicated"),
    )


def _gone(gaps: DataFrame) -> DataFrame:
    return gaps.groupBy("line", "queue", F.date_trunc("hour", "before_at").alias("hour")).agg(
        # Where the server does not count entries, at least one is lost.
        F.sum(F.coalesce("lost", F.lit(1))).alias("gaps")
    )


def _missing(missing: DataFrame) -> DataFrame:
    is_lost = F.col("fate") == LOST
    hour = Window.partitionBy("line", "queue", arrival(), "fate").orderBy("subject")
    few = is_lost & (F.col("rank") <= EXAMPLES)
    return (
        missing.withColumn("rank", F.row_number().over(hour))
        .groupBy("line", "queue", arrival().alias("hour"))
        .agg(
            F.count_if(is_lost).alias("lost"),
            F.count_if(~is_lost).alias("silently"),
            F.array_sort(F.collect_list(F.when(few, F.col("subject")))).alias("lost_ids"),
        )
    )


def arrival() -> Column:
    """The hour in which an item was added; the first hour of its day if that is unknown."""
    return F.date_trunc("hour", F.coalesce("added_at", F.col("date").cast("timestamp")))
