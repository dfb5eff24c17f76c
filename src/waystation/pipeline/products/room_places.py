"""Who stands where in a waiting room, as the ledger looks at it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from waystation.core.events import Line
from waystation.waitingroom.redis.keys import RoomKeys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ENDS = ("left", "expired", "completed", "cancelled")
"""After these a visitor has no place any more."""


def places(events: "DataFrame") -> "DataFrame":
    """Every place in line: there, or come to some end."""
    from pyspark.sql import functions as F

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


def seen(client: Any, _prefix: str, queue: str) -> Iterator[str]:
    """Whoever is in line, called, late, or inside."""
    keys = RoomKeys(queue)
    for key in (keys.prequeue, keys.positions, keys.admitted, keys.missed, keys.recovered):
        for each, _ in client.zscan_iter(key, count=1000):
            yield each.decode("utf-8", "backslashreplace")
    for each in client.sscan_iter(keys.sessions, count=1000):
        yield each.decode("utf-8", "backslashreplace")
