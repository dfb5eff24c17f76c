"""The ledger: everything that was said to exist has ended or can be seen, or it is lost.

Whoever looks at the queues must look before the events are read. Then whatever could not be seen
had ended by then, and its end is among the events; what has neither is lost.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from waystation.pipeline.silver.items import ENDED
from waystation.pipeline.silver.steps import WHO
from waystation.pipeline.tables import LEDGER

EXAMPLES = 20
OF = ("line", "queue", "hour")


def unaccounted(items: DataFrame, seen: DataFrame, *, looked_at: Column) -> DataFrame:
    """What has not ended and was not seen, although it was there when somebody looked."""
    # A life that another one follows has ended, told or not.
    return (
        items.where(~F.col("state").isin(*ENDED))
        .where(F.coalesce("added_at", "last_told_at") < looked_at)
        .join(seen.select(*WHO).distinct(), list(WHO), "left_anti")
    )


def ledger(
    items: DataFrame, gaps: DataFrame, lost: DataFrame | None, *, lines: Sequence[str] = ()
) -> DataFrame:
    """One row for each queue and hour of arrival.

    `lost` is None when nobody has looked, and says nothing about lines that nobody looked at.
    """
    accounts = _arrived(items).join(_gone(gaps), list(OF), "full")
    if lost is None:
        unknown = F.lit(None)
        told = accounts.withColumns(
            {"lost": unknown.cast("bigint"), "lost_ids": unknown.cast("array<string>")}
        )
    else:
        told = accounts.join(_missing(lost), list(OF), "left").withColumn(
            "lost", F.when(F.col("line").isin(*lines), F.coalesce("lost", F.lit(0)))
        )
    zero = ("acknowledged", "terminal", "duplicated", "gaps")
    return (
        told.withColumns({name: F.coalesce(name, F.lit(0)) for name in zero})
        .withColumn("visible", F.col("acknowledged") - F.col("terminal") - F.col("lost"))
        .withColumn("lost_ids", F.coalesce("lost_ids", F.array().cast("array<string>")))
        .withColumn(
            "clean",
            (F.col("lost") == 0) & (F.col("duplicated") == 0) & (F.col("gaps") == 0),
        )
        .select(*LEDGER.names)
    )


def _arrived(items: DataFrame) -> DataFrame:
    return items.groupBy("line", "queue", arrival().alias("hour")).agg(
        F.count("*").alias("acknowledged"),
        F.count_if(F.col("state").isin(*ENDED)).alias("terminal"),
        F.count_if(F.col("duplicates") > 0).alias("duplicated"),
    )


def _gone(gaps: DataFrame) -> DataFrame:
    return gaps.groupBy("line", "queue", F.date_trunc("hour", "before_at").alias("hour")).agg(
        # A server that does not count lost at least one.
        F.sum(F.coalesce("lost", F.lit(1))).alias("gaps")
    )


def _missing(lost: DataFrame) -> DataFrame:
    rank = F.row_number().over(Window.partitionBy("line", "queue", arrival()).orderBy("subject"))
    return (
        lost.withColumn("rank", rank)
        .groupBy("line", "queue", arrival().alias("hour"))
        .agg(
            F.count("*").alias("lost"),
            F.array_sort(F.collect_list(F.when(F.col("rank") <= EXAMPLES, F.col("subject")))).alias(
                "lost_ids"
            ),
        )
    )


def arrival() -> Column:
    """The hour in which an item came to be; if that was not seen, the first one of its day."""
    return F.date_trunc("hour", F.coalesce("added_at", F.col("date").cast("timestamp")))
