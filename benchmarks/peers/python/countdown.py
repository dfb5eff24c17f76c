"""What every program here shares: its arguments, and a clock between the first job and the last."""

import argparse
import json
import os
import sys
import threading
import time
from importlib.metadata import version
from typing import NamedTuple


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
    one runs, so nobody pays for what is written after it.
    """

    def __init__(self, package: str, jobs: int) -> None:
        self._package = package
        self._jobs = self._left = jobs
        self._lock = threading.Lock()
        self._start = self._cpu = 0.0

    def tick(self) -> None:
        """One more job ran."""
        with self._lock:
            if self._left == self._jobs:
                self._start, self._cpu = time.perf_counter(), time.process_time()
            self._left -= 1
            if self._left == 0:
                self._end()

    def _end(self) -> None:
        seconds = time.perf_counter() - self._start
        cpu = time.process_time() - self._cpu
        figures = {
            "peer": self._package,
            "version": version(self._package),
            "jobs": self._jobs,
            "seconds": round(seconds, 3),
            "perSecond": round(self._jobs / seconds),
            "cpuMicrosPerJob": round(cpu * 1e6 / self._jobs, 1),
        }
        print(json.dumps(figures), file=sys.__stdout__, flush=True)
        os._exit(0)
