"""The same code on a real cluster: a master and two workers, each a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest
from redis import Redis

from tests.pipeline.conftest import JAVA, SMALL
from tests.pipeline.raw_streams import tell
from tests.support.ports import free_port
from waystation.pipeline.spark.java import java_home

SPARK = Path(pyspark.__file__).parent

DRIVER = """
import json, sys
from waystation.pipeline.history import History
from waystation.pipeline.runner import (RunOptions, run)
from waystation.pipeline.spark.session import SessionOptions, build_session
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.tables import EVENTS

master, url, root, small = sys.argv[1:]
conf = {
    **json.loads(small),
    "spark.cores.max": "2",
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
conf["spark.executor.extraJavaOptions"] = conf["spark.driver.extraJavaOptions"]
spark = build_session(SessionOptions(master=master, shuffle_partitions=2, conf=conf))
run(History(spark, root, spark_from=0), RunOptions(events=EventOptions(url=url), write_back=False))
history = History(spark, root)
told = history.read(EVENTS).where("stream like 'bull:%'")
executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
print("SEEN", told.count(), history.items().count(), executors)
spark.stop()
"""


@contextmanager
def process(*words: str, log: Path) -> Generator[subprocess.Popen[bytes]]:
    environment = {
        **os.environ,
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": JAVA,
    }
    with log.open("wb") as out:
        started = subprocess.Popen(
            words, stdout=out, stderr=out, env=environment, start_new_session=True
        )
        try:
            yield started
        finally:
            os.killpg(started.pid, signal.SIGKILL)
            started.wait()


def wait_for(log: Path, words: str) -> None:
    until = time.monotonic() + 90
    while words not in log.read_text(errors="replace"):
        assert time.monotonic() < until, log.read_text(errors="replace")
        time.sleep(0.2)


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The address of a master that two workers have joined."""
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    spark_class = str(SPARK / "bin" / "spark-class")
    here = ("--host", "127.0.0.1")
    with ExitStack() as stack:
        log = tmp_path / "master.log"
        stack.enter_context(
            process(
                spark_class,
                "org.apache.spark.deploy.master.Master",
                *here,
                "--port",
                str(port),
                "--webui-port",
                "0",
                log=log,
            )
        )
        wait_for(log, "Starting Spark master")
        for number in range(2):
            stack.enter_context(
                process(
                    spark_class,
                    "org.apache.spark.deploy.worker.Worker",
                    *here,
                    "--cores",
                    "1",
                    "--memory",
                    "600m",
                    "--work-dir",
                    str(tmp_path / f"work-{number}"),
                    "--webui-port",
                    "0",
                    address,
                    log=tmp_path / f"worker-{number}.log",
                )
            )
        for number in range(2):
            wait_for(tmp_path / f"worker-{number}.log", "Successfully registered")
        yield address


@pytest.mark.long
@pytest.mark.timeout(900)
def test_two_workers_of_a_cluster_make_the_same_history(
    master: str, store: Redis, redis_url: str, root: str, tmp_path: Path
) -> None:
    tell(store, 500, queue="mail")
    tell(store, 300, queue="post")
    program = tmp_path / "driver.py"
    program.write_text(DRIVER)
    done = subprocess.run(
        [sys.executable, str(program), master, redis_url, root, json.dumps(SMALL.conf)],
        capture_output=True,
        text=True,
        timeout=360,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "SEEN 800 800 2" in done.stdout
