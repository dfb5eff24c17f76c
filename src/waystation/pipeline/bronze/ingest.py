"""What was told, kept for ever: streams into the tables `events` and `gaps`.

Both tables take a micro-batch in one commit each that carries its number, and the commit of
`events` notes how far the streams were read. So the tables themselves know where to go on, and a
checkpoint is a convenience that may be thrown away.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from waystation.pipeline.bronze import archive, checkpoint
from waystation.pipeline.bronze.sink import NAME, PLACES
from waystation.pipeline.sources import offsets
from waystation.pipeline.storage import delta
from waystation.pipeline.tables import EVENTS

STARTS = 5
"""How often a query is started whose Python is too slow to start."""
_KEPT = "kept"
# Spark waits ten seconds for the process that plans a stream; no setting makes that longer.
_TOO_SLOW = "Python worker failed to connect back"


class Intake:
    """A query that reads streams into the tables, started again where Python started too slowly."""

    def __init__(self, start: Callable[[], StreamingQuery], *, starts: int = STARTS) -> None:
        self._start = start
        self._starts_left = starts - 1
        self._events = 0
        self._last_batch = -1
        self._query = start()

    @property
    def events(self) -> int:
        """How many events it has kept so far; to be asked at least once in a hundred batches."""
        for progress in self._query.recentProgress:
            if progress.batchId > self._last_batch:
                self._last_batch = progress.batchId
                kept = progress.observedMetrics.get(_KEPT)
                self._events += (kept["events"] or 0) if kept else 0
        return self._events

    def goes_on(self) -> bool:
        """Whether it still reads; whatever ended it early is raised."""
        if self._query.isActive:
            return True
        error = self._query.exception()
        if error is None:
            return False
        if not (_was_too_slow(error) and self._starts_left):
            raise error
        self._starts_left -= 1
        self._query = self._start()
        return True

    def wait(self, seconds: float) -> None:
        """Wait until it ends, at most so long."""
        with suppress(StreamingQueryException):
            self._query.awaitTermination(seconds)  # pyright: ignore[reportArgumentType]

    def finish(self) -> int:
        """Wait until it ends; how many events it has kept."""
        while self.goes_on():
            self.wait(60)
        return self.events

    def stop(self) -> None:
        """End it after the batch under way; whatever ended it before is raised."""
        self._query.stop()
        error = self._query.exception()
        if error is not None and not _was_too_slow(error):
            raise error


def _was_too_slow(error: StreamingQueryException) -> bool:
    return _TOO_SLOW in str(error)


def follow(spark: SparkSession, root: str, *, every: str | None = None, **asked: str) -> Intake:
    """Keep what the streams tell: all there is now, or batch after batch `every` so often.

    What is asked besides are the options of `waystation.events`.
    """
    return Intake(partial(_started, spark, root, every, asked))


def _started(
    spark: SparkSession, root: str, every: str | None, asked: dict[str, str]
) -> StreamingQuery:
    folder = checkpoint_of(root)
    application = checkpoint.application(folder)
    noted = delta.last_notes(EVENTS.place(root), PLACES)
    checkpoint.check(
        folder,
        archived=delta.last_batch(EVENTS.place(root), application),
        reached=offsets.read(noted) if noted else {},
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


def _written(noted: Any) -> str:
    """How far the tables have come, as `waystation.events` takes it for its `starting`."""
    return "earliest" if noted is None else msgspec.json.encode(noted).decode()


def checkpoint_of(root: str) -> str:
    """Where Spark keeps its place in the streams."""
    return f"{root.rstrip('/')}/checkpoints/bronze"
