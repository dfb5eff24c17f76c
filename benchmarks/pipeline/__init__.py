"""The pipeline: streams into tables and rows into a queue, beside what one process can do."""

from benchmarks.pipeline import enqueue, events, payloads
from benchmarks.report import Report
from waystation.core.store import embedded
from waystation.pipeline.spark.session import SessionOptions, register, start_session


def run() -> list[Report]:
    """Everything in one interleaved run, on one server and in one Spark session."""
    spark = start_session(SessionOptions(master="local[2]", conf={"spark.log.level": "OFF"}))
    register(spark)
    try:
        with embedded.ephemeral() as server:
            return [
                *events.reports(spark, server.url),
                payloads.report(spark, server.url),
                enqueue.report(spark, server.url),
            ]
    finally:
        spark.stop()
