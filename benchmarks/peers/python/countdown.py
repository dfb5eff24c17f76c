"""What every program here shares: its arguments, and a clock between the first job and the last."""

import argparse
import json
import os
import socket
import sys
import threading
import time
from importlib.metadata import version
from typing import NamedTuple
from urllib.parse import urlsplit


class Given(NamedTuple):
    """What the program was asked for."""

    url: str
    jobs: int
    concurrency: int


def given() -> Given:
    """The arguments of this program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--jobs", type=int, default=5_000)
    parser.add_argument("--concurrency", type=int, default=200)
    return Given(**vars(parser.parse_args()))


class Countdown:
    """Counts the jobs that ran; with the last one it prints the figures and ends the process.

    The clock starts with the first job, so nobody pays for a slow start, and stops when the last
    one runs, so nobody pays for what is written after it. Jobs are numbered from 0: one that is
    lost keeps the program from ending, and one that runs twice is reported.
    """

    def __init__(self, package: str, asked: Given) -> None:
        self._package = package
        self._asked = asked
        self._missing = set(range(asked.jobs))
        self._twice = 0
        self._lock = threading.Lock()
        self._began: tuple[float, float, float] | None = None

    def tick(self, n: int) -> None:
        """The job of this number ran."""
        with self._lock:
            if self._began is None:
                self._began = self._clocks()
            if n in self._missing:
                self._missing.remove(n)
            else:
                self._twice += 1
            if not self._missing:
                self._end(*self._began)

    def _clocks(self) -> tuple[float, float, float]:
        return time.perf_counter(), time.process_time(), store_seconds(self._asked.url)

    def _end(self, start: float, cpu: float, store: float) -> None:
        jobs = self._asked.jobs
        seconds, cpu, store = (
            now - before for now, before in zip(self._clocks(), (start, cpu, store), strict=True)
        )
        figures = {
            "peer": self._package,
            "version": version(self._package),
            "jobs": jobs,
            "twice": self._twice,
            "seconds": round(seconds, 3),
            "perSecond": round(jobs / seconds),
            "cpuMicrosPerJob": round(cpu * 1e6 / jobs, 1),
            "storeMicrosPerJob": round(store * 1e6 / jobs, 1),
        }
        print(json.dumps(figures), file=sys.__stdout__, flush=True)
        os._exit(0)


def store_seconds(url: str) -> float:
    """The processor time that the store has used so far."""
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port)) as connection:
        connection.sendall(b"INFO cpu\r\n")
        text = connection.recv(1 << 16).decode()
    lines = dict(line.split(":", 1) for line in text.split() if ":" in line)
    return float(lines["used_cpu_user"]) + float(lines["used_cpu_sys"])
