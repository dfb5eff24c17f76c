"""The pipeline as a client of a Spark Connect server, which runs in a process of its own."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyspark
import pytest
from pyspark.sql import SparkSession
from redis import Redis

from tests.pipeline.connect_server import Server
from tests.pipeline.drill import ROWS
from tests.pipeline.whole_program import EXPECTED, JOBS
from tests.support.ports import free_port
from waystation.core.errors import SparkNotStarted
from waystation.pipeline import EventOptions, History, RunOptions, run
from waystation.pipeline.spark.session import SessionOptions, build_session

SCAN = """
import sys
from pyspark.sql import SparkSession
from waystation import pipeline

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
try:
    pipeline.scan_listing(spark, "files.csv", pipeline.ScanRules(url="redis://127.0.0.1"))
except Exception as refused:
    print(refused)
"""

RUN = """
import sys
from pyspark.sql import SparkSession
from waystation.pipeline import EventOptions, History, RunOptions, run

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
try:
    run(History(spark, "history"), RunOptions(events=EventOptions(url="redis://127.0.0.1")))
except Exception as refused:
    print(refused)
"""

ADD = """
import sys
from pyspark.sql import SparkSession
from tests.pipeline.drill import enqueue
from waystation import pipeline

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
pipeline.register(spark)
enqueue(spark, "june", sys.argv[2])
"""


@pytest.fixture
def server(tmp_path: Path, redis_url: str) -> Iterator[Server]:
    server = Server(tmp_path, redis_url)
    try:
        server.wait()
        yield server
    finally:
        server.stop()


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_client_adds_jobs_reads_them_and_asks_the_history(
    server: Server, spark: SparkSession, store: Redis, redis_url: str, root: str, tmp_path: Path
) -> None:
    program = ["-m", "tests.pipeline.whole_program", redis_url, root, str(tmp_path), server.remote]
    found = json.loads(server.client(*program).splitlines()[-1])
    assert found.pop("version") == pyspark.__version__
    assert store.llen("bull:mail:wait") == JOBS
    assert found == {name: EXPECTED[name] for name in ("jobs", "events", "streamed")}

    # A question to the server, about what a driver of its own has stored.
    run(History(spark, root), RunOptions(events=EventOptions(url=redis_url)))
    at = ["--master", server.remote, "--history", root]
    question = "select count(*) as n from items join jobs using (product, queue, job_id)"
    words = ["-m", "waystation", "pipeline", "sql", question, "--json", "--engine", "spark", *at]
    assert json.loads(server.client(*words)) == {"n": JOBS}

    # What a client cannot do is refused with a sentence.
    for program in (SCAN, RUN):
        assert "wants a Spark master" in server.client("-c", program, server.remote)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_clients_that_are_killed_do_nothing_twice(
    server: Server, store: Redis, redis_url: str
) -> None:
    add = ["-c", ADD, server.remote, redis_url]
    server.kill_when(lambda: store.llen("bull:bulk:wait") > 0, *add)
    server.client(*add)
    ids = cast(list[Any], store.lrange("bull:bulk:wait", 0, -1))
    assert len(ids) == len(set(ids)) == ROWS


def test_a_server_that_nobody_can_reach_is_an_error_at_once() -> None:
    port = free_port()
    with pytest.raises(SparkNotStarted, match=f"no Spark Connect server answers.*:{port}: "):
        build_session(SessionOptions(master=f"sc://127.0.0.1:{port}/;token=secret"))
