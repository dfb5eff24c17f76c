"""What was told, kept for ever: streams into the tables `events` and `gaps`.

Both tables take a micro-batch in one commit each that carries its number, and the commit of
`events` notes how far the streams were read. So the tables themselves know where to go on, and a
checkpoint is a convenience that may be thrown away.
"""

from typing import Any

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from waystation.pipeline.bronze import archive, checkpoint
from waystation.pipeline.bronze.sink import NAME, PLACES
from waystation.pipeline.sources import places
from waystation.pipeline.storage import delta
from waystation.pipeline.tables import EVENTS

_KEPT = "kept"


def follow(
    spark: SparkSession, root: str, *, every: str | None = None, **asked: str
) -> StreamingQuery:
    """Keep what the streams tell: all there is now, or batch after batch `every` so often.

    What is asked besides are the options of `waystation.events`.
    """
    folder = checkpoint_of(root)
    application = checkpoint.application(folder)
    noted = delta.last_notes(EVENTS.place(root), PLACES)
    checkpoint.check(
        folder,
        archived=delta.last_batch(EVENTS.place(root), application),
        reached=places.read(noted) if noted else {},
    )
    trigger: dict[str, Any] = {"availableNow": True} if every is None else {"processingTime": every}
    return (
        spark.readStream.format(archive.NAME)
        .options(**{"starting": _written(noted), "root": root, **asked})
        .load()
        .observe(_KEPT, F.sum("part.rows").alias("events"))
        .writeStream.format(NAME)
        .option("root", root)
        .option("application", application)
        .option("checkpointLocation", folder)
        .queryName("bronze")
        .trigger(**trigger)
        .start()
    )


def events_kept(query: StreamingQuery) -> int:
    """How many events a query has kept so far, as far as Spark remembers its batches."""
    told = (progress.observedMetrics.get(_KEPT) for progress in query.recentProgress)
    return sum(batch["events"] or 0 for batch in told if batch)


def _written(noted: Any) -> str:
    """How far the tables have come, as `waystation.events` takes it for its `starting`."""
    return "earliest" if noted is None else msgspec.json.encode(noted).decode()


def checkpoint_of(root: str) -> str:
    """Where Spark keeps its place in the streams."""
    return f"{root.rstrip('/')}/checkpoints/bronze"
