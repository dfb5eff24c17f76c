"""The pipeline as a client of a Spark Connect server, which runs in a process of its own."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyspark
import pytest
from redis import Redis

from tests.pipeline.connect_server import Server
from tests.pipeline.drill import ROWS
from tests.pipeline.raw_streams import tell
from tests.pipeline.test_cluster import stored_entries
from tests.pipeline.whole_program import EXPECTED, JOBS
from tests.support.ports import free_port
from waystation.core.errors import SparkNotStarted
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
def test_a_client_adds_jobs_reads_them_keeps_the_history_and_asks(
    server: Server, store: Redis, redis_url: str, root: str, tmp_path: Path
) -> None:
    program = ["-m", "tests.pipeline.whole_program", redis_url, root, str(tmp_path), server.remote]
    found = json.loads(server.client(*program).splitlines()[-1])
    assert found.pop("version") == pyspark.__version__
    assert store.llen("bull:mail:wait") == JOBS
    assert found == EXPECTED

    # The commands: a run that stores what is new, and a question to the server about both.
    at = ["--master", server.remote, "--history", root]
    words = ["-m", "waystation", "pipeline", "run", "--once", *at]
    server.client(*words, WAYSTATION_PIPELINE__SPARK_FROM="0")
    question = "select count(*) as n from items join jobs using (line, queue, subject)"
    words = ["-m", "waystation", "pipeline", "sql", question, "--json", "--engine", "spark", *at]
    assert json.loads(server.client(*words)) == {"n": JOBS}

    # What a client cannot do is refused with a sentence.
    assert "wants a Spark master" in server.client("-c", SCAN, server.remote)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_clients_that_are_killed_lose_nothing_and_do_nothing_twice(
    server: Server, store: Redis, redis_url: str, root: str
) -> None:
    add = ["-c", ADD, server.remote, redis_url]
    server.kill_when(lambda: store.llen("bull:bulk:wait") > 0, *add)
    server.client(*add)
    ids = cast(list[Any], store.lrange("bull:bulk:wait", 0, -1))
    assert len(ids) == len(set(ids)) == ROWS

    store.flushdb()
    told = [("bull:mail:events", entry) for entry in tell(store, 3000, event="completed")]
    run = ["-m", "waystation", "pipeline", "run", "--master", server.remote, "--history", root]
    server.kill_when(lambda: bool(stored_entries(root)), *run, WAYSTATION_PIPELINE__SPARK_FROM="0")
    told += [("bull:mail:events", entry) for entry in tell(store, 3000, event="completed")]
    server.client(*run, "--once", WAYSTATION_PIPELINE__SPARK_FROM="0")
    assert sorted(stored_entries(root)) == sorted(told)


def test_a_server_that_nobody_can_reach_is_an_error_at_once() -> None:
    port = free_port()
    with pytest.raises(SparkNotStarted, match=f"no Spark Connect server answers.*:{port}: "):
        build_session(SessionOptions(master=f"sc://127.0.0.1:{port}/;token=secret"))
