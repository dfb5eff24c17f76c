"""A standalone cluster of Spark on the loopback."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyspark

from waystation.pipeline.spark.java import java_home

PATIENCE_S = 120
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


class Cluster(NamedTuple):
    """A cluster that runs."""

    url: str
    worker: int
    """Process id of the worker, which starts the executors."""


@contextmanager
def cluster(folder: Path, *, cores: int) -> Generator[Cluster]:
    """A master, and a worker that offers so many cores."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    url = f"spark://127.0.0.1:{port}"
    here = ["--host", "127.0.0.1", "--webui-port", "0"]
    offer = ["--cores", str(cores), "--memory", "8g", "--work-dir", str(folder / "work")]
    running: list[subprocess.Popen[bytes]] = []
    try:
        for name, words, sign in (
            ("master.Master", ["--port", port], "Starting Spark master"),
            ("worker.Worker", [*offer, url], "Successfully registered"),
        ):
            running.append(_started(folder / f"{name}.log", name, [*here, *words], sign))
        yield Cluster(url, running[-1].pid)
    finally:
        for each in reversed(running):
            each.terminate()
            each.wait()


def _started(log: Path, name: str, words: list[str], sign: str) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
    }
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(SPARK_CLASS), f"org.apache.spark.deploy.{name}", *words],
            stdout=out,
            stderr=out,
            env=environment,
        )
    until = time.monotonic() + PATIENCE_S
    while sign not in log.read_text(errors="replace"):
        if time.monotonic() > until or process.poll() is not None:
            process.kill()
            raise RuntimeError(log.read_text(errors="replace")[-2000:])
        time.sleep(0.1)
    return process
