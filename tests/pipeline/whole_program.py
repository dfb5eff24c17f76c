"""A program that uses every part of the pipeline, for a Spark that is not the tests' own.

`python -m tests.pipeline.whole_program URL ROOT FOLDER [REMOTE]` prints what it found as JSON; with
REMOTE it is a client of that Spark Connect server.
"""

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.pipeline.conftest import SMALL
from waystation import pipeline
from waystation.pipeline.bronze.ingest import Ingest
from waystation.pipeline.spark.java import java_home

JOBS = 300
ZONE = "spark.sql.session.timeZone"


def session(remote: str) -> SparkSession:
    """A session as any program starts one: ours is only what `register` adds."""
    builder: SparkSession.Builder = SparkSession.builder
    if remote:
        return builder.remote(remote).getOrCreate()
    os.environ.setdefault("JAVA_HOME", str(java_home()))
    builder = builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
    for name, value in {**SMALL.conf, "spark.ui.enabled": "false"}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def use_sources(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Add jobs twice, read them, read their events, and follow these twice."""
    rows = spark.range(JOBS).selectExpr(
        "concat('k', id) AS key", "'send' AS name", "to_json(struct(id)) AS data"
    )
    written = {"queue": "mail", "batch": "june"}
    for _ in range(2):
        rows.write.format("waystation.jobs").options(**written).mode("append").save()
    jobs = spark.read.format("waystation.jobs").options(queues="mail").load()
    events = spark.read.format("waystation.events").options(queues="mail").load()
    for _ in range(2):
        # Started again where its processes start too slowly.
        Ingest(partial(_follow, spark, folder)).finish()
    return {
        "jobs": jobs.count(),
        "events": events.where("event = 'added'").count(),
        "streamed": spark.read.parquet(str(folder / "rows")).count(),
    }


def _follow(spark: SparkSession, folder: Path) -> StreamingQuery:
    return (
        spark.readStream.format("waystation.streams")
        .options(streams="bull:mail:events")
        .load()
        .where("_range is null and fields['event'] = 'added'")
        .select("stream", "entry_id")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .option("path", str(folder / "rows"))
        .trigger(availableNow=True)
        .start()
    )


def keep_history(spark: SparkSession, url: str, root: str) -> dict[str, Any]:
    """Store the events twice, and ask about them."""
    history = pipeline.History(spark, root)
    options = pipeline.RunOptions(events=pipeline.EventOptions(url=url))
    ran = [pipeline.run(history, options) for _ in range(2)]
    asked = pipeline.History(spark, root)
    asked.create_views()
    waiting: Any = spark.sql("select count(*) as n from items where state = 'waiting'").first()
    return {
        "stored": [each.events for each in ran],
        "failed": [check for each in ran for check in each.failed_checks],
        "items": waiting["n"],
        "attempts": asked.attempts().count(),
    }


def main(url: str, root: str, folder: str, remote: str = "") -> None:
    spark = session(remote)
    spark.conf.set(ZONE, "Asia/Tokyo")
    pipeline.register(spark)
    found: dict[str, Any] = {"version": spark.version, **use_sources(spark, Path(folder))}
    if not remote:
        found["zones"] = [spark.conf.get(ZONE)]
        found |= keep_history(spark, url, root)
        found["zones"].append(spark.conf.get(ZONE))
    spark.stop()
    print(json.dumps(found))


EXPECTED: dict[str, Any] = {
    **dict.fromkeys(("jobs", "events", "streamed", "items"), JOBS),
    "attempts": 0,
    # Each job reports that it was added, and that it waits; the second run finds nothing new.
    "stored": [2 * JOBS, 0],
    "failed": [],
    # The sources leave the settings of a program alone; a history needs its own.
    "zones": ["Asia/Tokyo", "UTC"],
}
"""What it finds, whatever it runs on, besides the version."""


if __name__ == "__main__":
    main(*sys.argv[1:])
