"""Places in a waiting room as the ledger counts them."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from waystation.core.events import Line
from waystation.waitingroom.redis.keys import RoomKeys

ENDS = ("left", "expired", "completed", "cancelled")
"""Events after which a visitor has no place any more."""


def places(events: DataFrame) -> DataFrame:
    """One row for each place in a waiting room, open or ended."""
    joined = F.col("event").isin("waiting", "delayed")
    folded = (
        events.where(F.col("line") == Line.WAITINGROOM.value)
        .where(F.col("subject").isNotNull() & (F.col("event") != "refused"))
        .groupBy("line", "queue", "subject")
        .agg(
            F.min(F.when(joined, F.col("at"))).alias("added_at"),
            F.max_by("event", F.struct("told_at", "seq")).alias("last"),
            F.max("told_at").alias("last_told_at"),
            F.min("date").alias("date"),
        )
    )
    state = F.when(F.col("last").isin(*ENDS), "completed").otherwise("waiting")
    return folded.withColumn("state", state).withColumn("duplicates", F.lit(0)).drop("last")


def open_ids(client: Any, _prefix: str, queue: str) -> Iterator[str]:
    """Ids of visitors who wait, are admitted, were late, or are inside."""
    keys = RoomKeys(queue)
    for key in (keys.prequeue, keys.positions, keys.admitted, keys.missed, keys.recovered):
        for each, _ in client.zscan_iter(key, count=1000):
            yield each.decode("utf-8", "backslashreplace")
    for each in client.sscan_iter(keys.sessions, count=1000):
        yield each.decode("utf-8", "backslashreplace")
