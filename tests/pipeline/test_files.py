"""What the files line adds to the history, and how a listing becomes jobs."""

import datetime as dt
import json
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from redis import Redis

from tests.pipeline.summed import summed
from waystation.core.errors import InvalidInput
from waystation.files.options import PREFIX
from waystation.files.redis.keys import FileKeys
from waystation.pipeline.gold import derived
from waystation.pipeline.gold.cells import CELLS, COUNTS
from waystation.pipeline.gold.derived import Cell, Known
from waystation.pipeline.products import product_named
from waystation.pipeline.products.files import FACTS, FILES, FilesEncoder, merged, rows_from_events
from waystation.pipeline.sources.batch_writer import BatchWriter
from waystation.pipeline.storage.arrow import pa
from waystation.pipeline.storage.schemas import schema_of

# pyright: reportPrivateUsage=false
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def at(seconds: float) -> dt.datetime:
    return NOON + dt.timedelta(seconds=seconds)


def listing(count: int) -> list[dict[str, Any]]:
    return [
        {"key": f"{n}", "path": f"/lake/{n}.csv", "size": n, "mtime_ns": 1, "priority": "low"}
        for n in range(count)
    ]


def test_a_listing_sent_again_adds_nothing(store: Redis) -> None:
    batch = BatchWriter(FilesEncoder(), "files", "jobqueue", "monday", keep_ms=60_000)
    first = batch.add(store, listing(1_000), chunk=250)
    again = batch.add(store, listing(1_000), chunk=250)
    assert (first.new, again.new, again.known) == (1_000, 0, 1_000)
    # Another batch with the same files is known by what the files are.
    other = BatchWriter(FilesEncoder(), "files", "jobqueue", "tuesday", keep_ms=60_000)
    other.add(store, listing(1_000), chunk=250)
    assert store.llen("jobqueue:low_priority") == 1_000
    (raw,) = store.lrange("jobqueue:low_priority", -1, -1)  # type: ignore[misc]
    assert json.loads(raw)["filepath"] == "/lake/0.csv"


@pytest.mark.parametrize("row", [{"path": ""}, {"path": 7}, {"path": "/a", "size": -1}])
def test_a_row_that_is_no_file_is_refused(row: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="a file"):
        FilesEncoder().job(FileKeys(), row)


def test_the_line_is_known_to_the_pipeline() -> None:
    assert product_named("files") is FACTS
    assert FACTS.streams.key("jobqueue", "files") == "jobqueue:events"
    assert FACTS.prefix == PREFIX


@pytest.mark.slow
def test_files_are_told_by_directory_type_and_size(spark: SparkSession, root: str) -> None:
    events = spark.createDataFrame(
        [
            ("files", "q", "1", "waiting", at(0), {"path": "/in/a.PDF", "size": "100"}),
            ("files", "q", "2", "waiting", at(1), {"path": "/in/b.pdf", "size": "200"}),
            ("files", "q", "3", "waiting", at(1), {"path": "/in/c.pdf", "size": "300"}),
            ("files", "q", "4", "waiting", at(0), {"path": "/in/deep/two\nlines", "size": "0"}),
            (
                "files",
                "q",
                "5",
                "waiting",
                at(0),
                {"path": "/in/huge.bin", "size": f"{10 * 2**30}"},
            ),
            ("files", "q", "1", "waiting", at(1), {}),
            ("files", "q", "1", "waiting", at(0), {"path": "/in/a.PDF", "size": "100"}),
        ],
        "product string, queue string, job_id string, event string, at timestamp, "
        "fields map<string,string>",
    )
    items = spark.createDataFrame(
        [
            ("files", "q", "1", "completed", at(0), at(2), 10, at(0).date()),
            ("files", "q", "2", "completed", at(1), at(3), 12, at(0).date()),
            ("files", "q", "3", "failed", at(1), at(4), 5_000, at(0).date()),
            ("files", "q", "4", "completed", at(0), at(1), 1, at(0).date()),
            ("files", "q", "5", "active", at(0), None, None, at(0).date()),
            ("bullmq", "q", "1", "completed", at(0), at(2), 10, at(0).date()),
        ],
        "product string, queue string, job_id string, state string, added_at timestamp, "
        "ended_at timestamp, run_ms long, date date",
    )
    added = merged(rows_from_events(events)).drop("product")
    files = items.where("product = 'files'").join(added, ["queue", "job_id", "date"])
    counted = summed(spark, root, files=files)(FILES)
    rows = {(row["directory"], row["type"]): SimpleNamespace(**row) for row in counted}
    pdf = rows["/in", ".pdf"]
    assert (pdf.files, pdf.completed, pdf.dead, pdf.bytes) == (3, 2, 1, 600)
    assert (pdf.size_class, pdf.run_p50_ms, pdf.outliers) == ("up to 1 KB", 12, 1)
    assert pdf.run_p95_ms == pytest.approx(5_000, rel=0.01)
    assert (pdf.finish_ms, pdf.throughput) == (4_000, 0.75)
    assert rows["/in/deep", ""].size_class == "empty"
    huge = rows["/in", ".bin"]
    assert (huge.size_class, huge.last_at, huge.finish_ms) == ("over 1 GB", None, None)
    assert (huge.files, huge.run_p50_ms, huge.outliers) == (1, None, 0)


def test_files_whose_addition_nobody_has_seen_have_no_time_to_finish() -> None:
    row = {"kind": "file", "product": None, "queue": "high", "at": None, "more": '["/a","csv","B"]'}
    row |= {"first": None, "last": at(9), **dict.fromkeys(COUNTS, 1), "n3": 0}
    parts = pa.array([], schema_of(CELLS.schema).field("parts").type.value_type)
    (found,) = derived._files([Cell(row, parts)], Known(target_ms=1, today=NOON.date()))
    assert (found["last_at"], found["finish_ms"], found["throughput"]) == (at(9), None, None)
