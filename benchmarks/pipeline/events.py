"""Streams into the bronze table, beside a loop in one process."""

import os
import tempfile
import time
from collections.abc import Callable
from typing import Any, cast

from pyspark.sql import SparkSession
from redis import Redis

from benchmarks.pipeline.memory import PeakMemory
from benchmarks.pipeline.streams import QUEUES, fill
from benchmarks.report import Report, Row
from benchmarks.turns import TIMES, medians
from waystation.pipeline.bronze import ingest
from waystation.pipeline.sources.offsets import EventStream, Offset, StreamRange
from waystation.pipeline.sources.redis_streams import rows_of
from waystation.pipeline.sources.store import Store, ends_of
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import pa, pq
from waystation.pipeline.storage.parts import PartWriter
from waystation.pipeline.tables import EVENTS

MANY = int(os.environ.get("PIPELINE_EVENTS", "5000000"))
TENTH = MANY // 10


def reports(spark: SparkSession, url: str) -> list[Report]:
    """How fast, and with how much memory."""
    with Redis.from_url(url, protocol=2) as client:
        fill(client, TENTH)
        _spark(spark, url, TENTH)
        with PeakMemory() as small:
            _spark(spark, url, TENTH)
        fill(client, MANY)
        with PeakMemory() as great:
            _spark(spark, url, MANY)
        ours, tuned, naive = _interleaved(
            lambda: _spark(spark, url, MANY),
            lambda: _tuned(client, url, MANY),
            lambda: _naive(client, MANY),
        )
        client.flushdb()
    return [
        Report(
            title=f"Streams into the bronze table: {MANY:,} events",
            unit="Spark on local[2], events/s",
            beside="one process",
            rows=[
                Row("beside a tuned loop", ours, tuned),
                Row("beside naive rows", ours, naive),
            ],
            remark=f"median of {TIMES}, in turn; aim: 0.8 of the tuned loop, 1.5 of the naive one",
        ),
        Report(
            title="Peak memory",
            unit=f"MB with {MANY:,}",
            beside=f"with {TENTH:,}",
            rows=[
                Row("the JVM", great.jvm_mb, small.jvm_mb),
                Row("Python workers", great.python_mb, small.python_mb),
            ],
            remark="aim: bounded, though there are ten times as many events",
        ),
    ]


def _spark(spark: SparkSession, url: str, many: int) -> float:
    with tempfile.TemporaryDirectory() as root:
        began = time.perf_counter()
        ingest.start(spark, root, url=url).finish()
        took = time.perf_counter() - began
        assert delta.read(spark, root, EVENTS).count() == many
    return many / took


def _tuned(client: Redis, url: str, many: int) -> float:
    """The same columns and files, without Spark in between."""
    streams = {f"q{queue}": f"bull:q{queue}:events" for queue in range(QUEUES)}
    with tempfile.TemporaryDirectory() as root:
        began = time.perf_counter()
        ends = ends_of(Store(url), streams.values())
        with PartWriter(EVENTS.path(root), EVENTS.schema, EVENTS.partitions) as writer:
            for queue, stream in streams.items():
                span = EventStream("bullmq", queue, stream)
                stretch = StreamRange(span, Offset(), ends[stream])
                for batch in rows_of(client, stretch, page=1000, accounts=False):
                    writer.write(batch.select(EVENTS.names))
        took = time.perf_counter() - began
        assert sum(part.rows for part in writer.parts) == many
    return many / took


def _naive(client: Redis, many: int) -> float:
    """A dictionary for every entry."""
    with tempfile.TemporaryDirectory() as root:
        began, read = time.perf_counter(), 0
        for queue in range(QUEUES):
            rows: list[dict[str, Any]] = []
            after = "-"
            while page := cast(
                list[Any], client.xrange(f"bull:q{queue}:events", after, count=1000)
            ):
                for entry_id, fields in page:
                    record = {name.decode(): value.decode() for name, value in fields.items()}
                    rows.append({"queue": f"q{queue}", "entry_id": entry_id.decode(), **record})
                after = f"({page[-1][0].decode()}"
            names = {name: None for row in rows for name in row}
            table = pa.table({name: [row.get(name) for row in rows] for name in names})
            pq.write_table(table, f"{root}/{queue}.parquet", compression="zstd")
            read += len(rows)
        took = time.perf_counter() - began
        assert read == many
    return many / took


def _interleaved(*subjects: Callable[[], float]) -> list[float]:
    """The median of each, measured in turn, so that a busy minute hits all of them."""
    return medians([[subject() for subject in subjects] for _ in range(TIMES)])
