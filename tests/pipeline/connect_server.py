"""A Spark Connect server in a process of its own, and its clients."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyspark

from tests.pipeline.conftest import SMALL
from tests.pipeline.drill import PROJECT, URL, descendants
from tests.support.patience import limit
from tests.support.ports import free_port
from tools.environments import packages_for_ours
from waystation.pipeline.spark.java import java_home

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


def connect_environment() -> dict[str, str]:
    """Variables with which our Python finds what clients of Spark Connect need besides Spark."""
    # What `pyspark[pipelines]` asks for, and pandas as old as Spark wants it.
    packages = ("grpcio", "grpcio-status", "googleapis-common-protos", "zstandard", "pyyaml")
    folder = packages_for_ours("connect", *packages, "pandas<3")
    found = [str(folder), os.environ.get("PYTHONPATH", "")]
    return {
        "JAVA_HOME": str(java_home()),
        "PYTHONPATH": os.pathsep.join(filter(None, found)),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


class Server:
    """A Spark Connect server on loopback, and programs that are its clients."""

    def __init__(self, folder: Path, url: str) -> None:
        self._port = free_port()
        self.remote = f"sc://127.0.0.1:{self._port}"
        self._log = folder / "server.log"
        self._environment = {**os.environ, **connect_environment(), URL: url}
        conf = {
            **SMALL.conf,
            "spark.log.level": "WARN",
            "spark.ui.enabled": "false",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self._port),
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
        }
        words = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
        submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        with self._log.open("wb") as out:
            self._process = subprocess.Popen(
                [str(submit), "--master", "local[2]", "--class", SERVER, *words],
                cwd=folder,
                env=self._environment,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def wait(self) -> None:
        """Wait until it accepts clients."""
        end = time.monotonic() + limit(300)
        while not self._accepts():
            assert self._process.poll() is None, self.said
            assert time.monotonic() < end, self.said
            time.sleep(0.2)

    def _accepts(self) -> bool:
        with (
            suppress(OSError),
            socket.create_connection(("127.0.0.1", self._port), timeout=1),
        ):
            return True
        return False

    @property
    def said(self) -> str:
        return self._log.read_text(errors="replace")[-5000:]

    def stop(self) -> None:
        for pid in [*descendants(self._process.pid), self._process.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def client(self, *words: str, **environment: str) -> str:
        """What a program prints that is a client of the server."""
        process = self.start(*words, **environment)
        printed, said = process.communicate()
        assert process.returncode == 0, f"{said[-4000:]}\n{self.said}"
        return printed

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        """Start a program that is a client of the server."""
        return subprocess.Popen(
            [sys.executable, *words],
            cwd=PROJECT,
            env={**self._environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def kill_when(self, done: Callable[[], bool], *words: str, **environment: str) -> None:
        """Start such a program, and kill it as soon as something has come of it."""
        with self.start(*words, **environment) as process:
            while not done():
                assert process.poll() is None, f"{process.communicate()}\n{self.said}"
                time.sleep(0.05)
            process.kill()
