"""Ingest: event streams into the bronze tables, by one streaming query.

Its tasks read the streams and write files; `foreachBatch` commits them. The commit of `events`
holds the offsets reached, and one that does not begin where the last one ends is refused. So every
query begins where the tables end, with a checkpoint of its own that ends with it.
"""

import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast

import msgspec
from deltalake.exceptions import CommitFailedError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from waystation.core.errors import Overtaken, SparkFailed
from waystation.core.telemetry.logs import describe, get_logger
from waystation.pipeline.bronze import archive, commits
from waystation.pipeline.bronze.archive import PAYLOADS_VARIABLE, WRITTEN, Archive, to_text
from waystation.pipeline.payloads.rules import PayloadSettings
from waystation.pipeline.sources import offsets
from waystation.pipeline.sources.offsets import Offset
from waystation.pipeline.storage.parts import Part
from waystation.pipeline.storage.sessions import prepared, share, sized
from waystation.pipeline.storage.turns import shared_turn
from waystation.pipeline.tables import EVENTS

_log = get_logger(__name__)
STARTS = 5
"""Times that a query is started, one after another, when its Python processes start too slowly."""
OVERTAKEN = 20
"""Times, one after another, that another driver may store the same entries first."""
OVERTAKING = (Overtaken, CommitFailedError)
"""What a commit is refused with when another driver was faster."""
After = Callable[[int], object]
"""What follows each batch, told how many events were stored."""
# Spark waits ten seconds for the process that plans a stream; no setting makes that longer.
_TOO_SLOW = "Python worker failed to connect back"


class Stopped(Exception):
    """A batch that must not begin."""


class Batches:
    """What is done with each micro-batch: its files are committed, then comes what follows it."""

    def __init__(self, root: str, after: After = lambda _: None) -> None:
        self._root = root
        self._after = after
        self._at_work = threading.Lock()
        self._is_stopped = False
        self.events = 0
        """Events stored so far."""
        self.done = 0
        """Batches that have ended well."""
        self.error: BaseException | None = None
        """The error that has ended the query; Spark knows only its text."""

    def store(self, files: DataFrame, _: int) -> None:
        """Let the tasks write the files of a micro-batch, and commit them."""
        with self._at_work:
            self.error = None
            try:
                if self._is_stopped:
                    raise Stopped
                with shared_turn(self._root, "run"):
                    rows: list[dict[str, Any]] = cast(Any, files).toArrow().to_pylist()
                    stored = commit(self._root, rows) if rows else 0
                    self.events += stored
                    self._after(stored)
                    self.done += 1
            except Exception as error:
                self.error = error
                raise
            except BaseException as error:
                self.error = error
                # To anything else Java gets no answer, and waits for one for ever.
                raise Stopped from error

    def stop(self) -> None:
        """Let no other batch begin, once the present one is done."""
        with self._at_work:
            self._is_stopped = True


def commit(root: str, rows: Sequence[Mapping[str, Any]]) -> int:
    """Commit the files that tasks have written; returns how many events are in them."""
    reports = [row for row in rows if not row["part"]]
    parts = {
        table: [Part.of(row["part"]) for row in rows if row["table"] == table.name]
        for table in WRITTEN
    }
    commits.store(root, parts, reports)
    return sum(part.rows for part in parts[EVENTS])


class Ingest:
    """A streaming query into the tables.

    Restarted when Python started too slowly, and when another driver was faster.
    """

    def __init__(
        self,
        start: Callable[[], StreamingQuery],
        batches: Batches | None = None,
        *,
        starts: int = STARTS,
    ) -> None:
        self._start = start
        self._batches = batches or Batches("")
        self._starts = starts
        self._refill()
        self._query = start()

    @property
    def events(self) -> int:
        """Events stored so far."""
        return self._batches.events

    def is_running(self) -> bool:
        """Whether it still reads; raises the error that ended it."""
        if self._query.isActive:
            return True
        error = self._query.exception()
        if error is None:
            return False
        if self._batches.done != self._done:
            self._refill()
        if isinstance(self._batches.error, OVERTAKING) and self._overtaken_left:
            self._overtaken_left -= 1
            self._batches.error = None
            self._query = self._start()
            return True
        if not _was_too_slow(error):
            raise self._batches.error or error
        if not self._starts_left:
            raise SparkFailed(
                f"Spark gave up on its Python processes {self._starts} times: they took longer to "
                "start than the ten seconds that it waits for them, which no setting makes longer. "
                "Give the machine more memory, or Spark fewer cores, and start again"
            ) from error
        self._starts_left -= 1
        _log.warning("spark_restarted", **describe(error))
        self._query = self._start()
        return True

    def _refill(self) -> None:
        """Count from the start: what runs for weeks is not ended by what has passed."""
        self._done = self._batches.done
        self._starts_left = self._starts - 1
        self._overtaken_left = OVERTAKEN

    def wait(self, seconds: float) -> None:
        """Wait until it ends, at most so many seconds."""
        with suppress(StreamingQueryException):
            self._query.awaitTermination(seconds)  # pyright: ignore[reportArgumentType]

    def finish(self) -> int:
        """Wait until it ends; returns the events stored."""
        while self.is_running():
            self.wait(60)
        return self.events

    def stop(self) -> None:
        """Stop it after the present batch; raises the error that ended it before."""
        self._batches.stop()
        self._query.stop()
        error = self._query.exception()
        # What another driver was faster with is stored.
        is_well = isinstance(self._batches.error, (*OVERTAKING, Stopped))
        if error is not None and not is_well and not _was_too_slow(error):
            raise self._batches.error or error


def _was_too_slow(error: StreamingQueryException) -> bool:
    return _TOO_SLOW in str(error)


def start(
    spark: SparkSession,
    root: str,
    *,
    payloads: PayloadSettings | None = None,
    every: str | None = None,
    after: After = lambda _: None,
    **options: str,
) -> Ingest:
    """Store what the streams hold now, or with `every`, batch after batch at this interval.

    There is a batch also when no event is new. `options` are those of `waystation.events`.
    """
    share(spark, {PAYLOADS_VARIABLE: "" if payloads is None else to_text(payloads)})
    prepared(spark, Archive)
    batches = Batches(root, after)
    return Ingest(partial(_query, spark, root, every, options, batches), batches)


def _query(
    spark: SparkSession,
    root: str,
    every: str | None,
    options: dict[str, str],
    batches: Batches,
) -> StreamingQuery:
    # Offsets are in the tables, so nothing is lost with it; two drivers must not share one.
    folder = tempfile.mkdtemp(prefix="waystation-")
    trigger: dict[str, Any] = {"availableNow": True} if every is None else {"processingTime": every}
    reading = (
        spark.readStream.format(archive.NAME)
        .options(**{"starting": _starting(commits.offsets_in(root)), "root": root, **options})
        .option("tasks", _tasks(spark, options))
        .load()
        .writeStream.foreachBatch(batches.store)
        .option("checkpointLocation", folder)
        .queryName("bronze")
        .trigger(**trigger)
    )
    # Its rows are files and reports, few however many events they are about.
    with sized(prepared(spark), 0):
        query = reading.start()
    weakref.finalize(query, shutil.rmtree, folder, ignore_errors=True)
    return query


def _starting(reached: Mapping[str, Offset]) -> str:
    """The offsets in the tables, as the option `starting` of `waystation.events`."""
    return msgspec.json.encode(offsets.to_json(reached)).decode() if reached else "earliest"


def _tasks(spark: SparkSession, options: dict[str, str]) -> str:
    """The option `tasks`: by default one for each core of the executors that are there."""
    given = options.get("tasks", "0")
    return str(spark.sparkContext.defaultParallelism) if given == "0" else given
