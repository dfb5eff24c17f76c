"""Jobs of a kilobyte into the tables with their events, beside the events alone."""

import hashlib
import os
import resource
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from pyspark.sql import SparkSession
from redis import Redis

from benchmarks.pipeline.streams import QUEUES
from benchmarks.report import Report, Row
from benchmarks.turns import TIMES, medians
from tests.pipeline.batches import Batches
from waystation.pipeline.bronze import ingest
from waystation.pipeline.bronze.payload_columns import FIELDS
from waystation.pipeline.payloads.rules import PayloadSettings
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.storage.arrow import pa, pq

JOBS = int(os.environ.get("PIPELINE_JOBS", "100000"))
EVENTS_OF_A_JOB = 4
PAGE = 500
WITHOUT = PayloadSettings(keep=False)
WITH = PayloadSettings()
DECLARED = PayloadSettings(fields={"tenant": "$.tenant", "order": "$.order.id"})
_WORDS = "please call the customer back about the late parcel that was sent to the old address; "


class Cost(NamedTuple):
    """What one run took."""

    wall: float
    cpu: float
    """CPU seconds of this process and of the server; Spark's are not among them."""


def report(spark: SparkSession, url: str) -> Report:
    """How much slower payloads make it, and how much they would at least."""
    with Redis.from_url(url, protocol=2) as client:
        fill(client, JOBS)
        subjects: list[Callable[[], Cost]] = [
            lambda: _costs(client, lambda root: _spark(spark, root, url, WITHOUT)),
            lambda: _costs(client, lambda root: _spark(spark, root, url, WITH)),
            lambda: _costs(client, lambda root: _here(root, url, WITHOUT)),
            lambda: _costs(client, lambda root: _here(root, url, WITH)),
            lambda: _costs(client, lambda root: _here(root, url, DECLARED)),
            lambda: _costs(client, lambda root: _bare(root, client)),
        ]
        for subject in subjects:
            subject()
        rounds = [[subject() for subject in subjects] for _ in range(TIMES)]
        client.flushdb()
    wall = medians([[each.wall for each in one] for one in rounds])
    cpu = medians([[each.cpu for each in one] for one in rounds])
    return _report(wall, cpu)


def _report(wall: list[float], cpu: list[float]) -> Report:
    spark_without, spark_with, without, kept, declared, _ = (JOBS / each for each in wall)
    cpu_without, cpu_with, cpu_declared, bare = (JOBS / cpu[each] for each in (2, 3, 4, 5))
    ceiling = 1 / (1 / cpu_without + 1 / bare)
    return Report(
        title=f"Payloads: {JOBS:,} jobs of 1 KB, with {EVENTS_OF_A_JOB} events each",
        unit="with payloads, jobs/s",
        beside="events alone",
        rows=[
            Row("Spark on local[2]", spark_with, spark_without),
            Row("this process", kept, without),
            Row("… with two declared fields", declared, without),
            Row("… by CPU second, the server's too", cpu_with, cpu_without),
            Row("… with two declared fields", cpu_declared, cpu_without),
            Row("… the ceiling: bare HMGET and Parquet", ceiling, cpu_without),
        ],
        remark=f"median of {TIMES}, in turn; events alone in this process: "
        f"{EVENTS_OF_A_JOB * without:,.0f} events/s; aim: 0.8",
    )


def fill(client: Redis, many: int) -> None:
    """Let the queues hold so many jobs that have ended, and their events."""
    client.flushdb()
    asking = client.pipeline(transaction=False)
    for number in range(many):
        base = f"bull:q{number % QUEUES}:"
        for event in _events(number):
            asking.xadd(f"{base}events", event)
        asking.hset(f"{base}{number}", mapping=_job(number))
        if number % PAGE == PAGE - 1:
            asking.execute()
    asking.execute()


def _events(number: int) -> list[dict[Any, Any]]:
    return [
        {"event": "added", "jobId": number, "name": "send"},
        {"event": "waiting", "jobId": number},
        {"event": "active", "jobId": number, "prev": "waiting", "workerId": f"w-{number % 16}"},
        {
            "event": "completed",
            "jobId": number,
            "returnvalue": '{"sent":true}',
            "prev": "active",
        },
    ]


def _job(number: int) -> dict[Any, Any]:
    # Half of the data are tokens, which cannot be compressed well, and half are words.
    token = "".join(hashlib.sha256(f"{letter}{number}".encode()).hexdigest() for letter in "abcdef")
    note = "".join(_WORDS[number % shift :] for shift in (7, 11, 13, 17, 19, 23))
    data = (
        f'{{"tenant":"t{number % 500}","order":{{"id":{number},"amount":{number * 7919 % 100000}}},'
        f'"token":"{token}","note":"{note}"}}'
    )
    added = 1_763_300_000_000 + number
    return {
        "name": "send",
        "data": data,
        "opts": '{"attempts":3,"backoff":{"type":"exponential","delay":1000}}',
        "timestamp": added,
        "delay": 0,
        "priority": 0,
        "processedOn": added + 500,
        "ats": 1,
        "atm": 1,
        "returnvalue": '{"sent":true}',
        "finishedOn": added + 900,
    }


def _costs(client: Redis, run: Callable[[str], None]) -> Cost:
    with tempfile.TemporaryDirectory() as root:
        began, cpu = time.perf_counter(), _cpu(client)
        run(root)
        return Cost(time.perf_counter() - began, _cpu(client) - cpu)


def _cpu(client: Redis) -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    server = cast("dict[str, float]", client.info("cpu"))
    return own.ru_utime + own.ru_stime + server["used_cpu_user"] + server["used_cpu_sys"]


def _spark(spark: SparkSession, root: str, url: str, payloads: PayloadSettings) -> None:
    stored = ingest.start(spark, root, url=url, payloads=payloads).finish()
    assert stored == JOBS * EVENTS_OF_A_JOB


def _here(root: str, url: str, payloads: PayloadSettings) -> None:
    stored = Batches(root, EventOptions(url=url), payloads).store()
    assert stored == JOBS * EVENTS_OF_A_JOB


def _bare(root: str, client: Redis) -> None:
    """The hashes of all jobs into one file, and nothing else: no events, no rules, no logs."""
    connection: Any = client.connection_pool.get_connection()
    names = [name.decode() for name in FIELDS]
    asked = b"".join(b"$%d\r\n%b\r\n" % (len(each), each) for each in FIELDS)
    writer: Any = None
    for first in range(0, JOBS, PAGE * 8):
        found: list[Any] = []
        for page in range(first, min(JOBS, first + PAGE * 8), PAGE):
            numbers = range(page, min(JOBS, page + PAGE))
            keys = [b"bull:q%d:%d" % (number % QUEUES, number) for number in numbers]
            head = b"*%d\r\n$5\r\nHMGET\r\n" % (len(FIELDS) + 2)
            asking = [head + b"$%d\r\n%b\r\n" % (len(key), key) + asked for key in keys]
            connection.send_packed_command([b"".join(asking)])
            found += [connection.read_response() for _ in keys]
        columns = [pa.array(each, pa.binary()) for each in zip(*found, strict=True)]
        table = pa.table(columns, names=names)
        writer = writer or pq.ParquetWriter(
            f"{root}/jobs.parquet", table.schema, compression="zstd"
        )
        writer.write_table(table)
    writer.close()
    client.connection_pool.release(connection)
