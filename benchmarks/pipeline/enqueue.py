"""A DataFrame into a queue, beside the store's own ceiling for the same script."""

import time

from pyspark.sql import SparkSession
from redis import Redis

from benchmarks.bullmq.ceiling import add_rate
from benchmarks.report import Report, Row
from benchmarks.turns import TIMES, medians

JOBS = 300_000


def report(spark: SparkSession, url: str) -> Report:
    """How fast jobs go in, with every key remembered."""
    with Redis.from_url(url, protocol=2) as client:
        _spark(spark, client, url, 10_000)
        rounds = [(_spark(spark, client, url, JOBS), add_rate(url, JOBS)) for _ in range(TIMES)]
        client.flushdb()
    ours, most = medians(rounds)
    return Report(
        title=f"A DataFrame of {JOBS:,} rows into a queue, each key once",
        unit="Spark on local[2], jobs/s",
        beside="the add script alone",
        rows=[Row("beside the store's own ceiling", ours, most)],
        remark="aim: 0.8 of the ceiling",
    )


def _spark(spark: SparkSession, client: Redis, url: str, many: int) -> float:
    client.flushdb()
    rows = spark.range(0, many, 1, 2).selectExpr(
        "concat('key-', id) AS key", "'send' AS name", "to_json(struct(id)) AS data"
    )
    began = time.perf_counter()
    rows.write.format("waystation.jobs").options(url=url, queue="bulk", batch="bench").mode(
        "append"
    ).save()
    took = time.perf_counter() - began
    assert client.llen("bull:bulk:wait") == many
    return many / took
