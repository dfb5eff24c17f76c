"""Python that is slow to start, as on a starved machine, and what a run makes of it."""
# ruff: noqa: N802, N815 (Spark calls them so)

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from redis import Redis

from tests.pipeline.raw_streams import write_events
from waystation.core.errors import Overtaken, SparkFailed
from waystation.pipeline.bronze import ingest
from waystation.pipeline.spark.session import register
from waystation.pipeline.storage.arrow import pa

SLOW = """#!/bin/sh
# Spark waits ten seconds for the process that plans a stream, and no setting makes that longer.
case "$*" in
*python_streaming_source_runner*)
  if mkdir "{mark}" 2>/dev/null; then exec sleep 30; fi ;;
esac
exec "{python}" "$@"
"""


@pytest.fixture
def slow_once(spark: SparkSession, tmp_path: Path) -> Iterator[None]:
    """Let the next process that plans a stream start too slowly."""
    program = tmp_path / "python"
    program.write_text(SLOW.format(mark=tmp_path / "was-slow", python=sys.executable))
    program.chmod(0o755)
    context = spark.sparkContext
    before, context.pythonExec = context.pythonExec, str(program)
    register(spark)
    yield
    context.pythonExec = before
    register(spark)


@pytest.mark.long
@pytest.mark.usefixtures("slow_once")
def test_a_python_that_started_too_slowly_is_started_again(
    spark: SparkSession, store: Redis, redis_url: str, root: str
) -> None:
    write_events(store, 10)
    assert ingest.start(spark, root, url=redis_url).finish() == 10


class Ended:
    """A query that has ended, well or because of something."""

    isActive = False
    recentProgress = ()

    def __init__(self, why: str | None = None) -> None:
        self._why = why

    def exception(self) -> StreamingQueryException | None:
        return None if self._why is None else StreamingQueryException(self._why)

    def awaitTermination(self, timeout: float) -> bool:
        return True


def test_a_python_that_is_always_too_slow_is_started_a_few_times_and_no_more() -> None:
    starts = iter(range(100))

    def too_slow() -> Any:
        next(starts)
        return Ended("[STREAM_FAILED] Query terminated: Python worker failed to connect back.")

    with pytest.raises(SparkFailed, match=r"3 times: .* the ten seconds that it waits"):
        ingest.Ingest(too_slow, starts=3).finish()
    assert next(starts) == 3


class NoFiles:
    """What tasks have written in a batch without new events."""

    def toArrow(self) -> Any:
        return pa.table({})


def overtaken_driver(root: str, *, stores: bool) -> ingest.Ingest:
    """A driver that is overtaken 50 times; in between it stores a batch, or does not."""
    batches, turns = ingest.Batches(root), iter(range(51))
    files: Any = NoFiles()

    def overtaken() -> Any:
        if next(turns) == 50:
            return Ended()
        if stores:
            batches.store(files, 0)
        batches.error = Overtaken("another run was faster")
        return Ended("[STREAM_FAILED] another run was faster")

    return ingest.Ingest(overtaken, batches)


def test_what_stores_batches_in_between_may_be_overtaken_any_number_of_times(root: str) -> None:
    assert overtaken_driver(root, stores=True).finish() == 0
    with pytest.raises(Overtaken, match="another run was faster"):
        overtaken_driver(root, stores=False).finish()


def test_a_python_that_is_now_and_then_too_slow_is_started_any_number_of_times(
    root: str,
) -> None:
    batches, turns = ingest.Batches(root), iter(range(10))
    files: Any = NoFiles()

    def now_and_then() -> Any:
        batches.store(files, 0)
        last = next(turns) == 9
        return Ended(None if last else "Python worker failed to connect back.")

    assert ingest.Ingest(now_and_then, batches, starts=3).finish() == 0


def test_whatever_else_ends_a_query_ends_the_intake() -> None:
    queries: list[Any] = [Ended("[STREAM_FAILED] no such luck"), Ended()]
    with pytest.raises(StreamingQueryException, match="no such luck"):
        ingest.Ingest(lambda: queries.pop(0)).finish()
    assert ingest.Ingest(lambda: queries.pop(0)).finish() == 0
