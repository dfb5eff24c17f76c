"""The programs that are measured.

`python -m benchmarks.pipeline_rounds.child bare | ours | rounds ROOT URL EVENTS`
"""

import sys
import time
from contextlib import nullcontext
from typing import Any

import msgspec
from pyspark.sql import SparkSession

from benchmarks.pipeline_rounds import past
from tests.pipeline.counting import counting
from waystation.pipeline.history import History
from waystation.pipeline.runner import RunOptions
from waystation.pipeline.runner import run as run_once
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.spark import session as sessions
from waystation.pipeline.spark.session import SessionOptions, start_session

MASTER = "local[2]"


class RoundResult(msgspec.Struct, frozen=True):
    """What a round did."""

    events: int
    wall_s: float
    counts: str = ""


def bare() -> None:
    """A session as any program starts one, and a count."""
    sessions._prepare_environment(local=True)  # pyright: ignore[reportPrivateUsage]
    builder: SparkSession.Builder = SparkSession.builder
    _count(builder.master(MASTER).getOrCreate())


def ours() -> None:
    """A session as the pipeline starts one, and a count."""
    _count(_session())


def _count(spark: SparkSession) -> None:
    assert spark.range(1000).count() == 1000
    spark.stop()


def rounds(root: str, url: str, events: int) -> None:
    """Build a history, then run a round for each line that is read; `count` counts its plans."""
    options = RunOptions(events=EventOptions(url=url))
    history, built = History(_session, root), 0
    for some in past.write(root, events):
        built += some
        run_once(history, options)
    _say(built)
    for line in sys.stdin:
        began = time.perf_counter()
        # Counting asks Java for every plan, so a round that is measured is not counted.
        counts = counting(history.spark) if line.strip() == "count" else nullcontext("")
        with counts as counted:
            result = run_once(history, options)
        assert not result.failed_checks, result.failed_checks
        _say(
            RoundResult(result.events, time.perf_counter() - began, str(counted).partition("\n")[0])
        )


def _session() -> SparkSession:
    return start_session(SessionOptions(master=MASTER, conf={"spark.log.level": "OFF"}))


def _say(what: Any) -> None:
    print(msgspec.json.encode(what).decode(), flush=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["bare"]:
            bare()
        case ["ours"]:
            ours()
        case ["rounds", root, url, events]:
            rounds(root, url, int(events))
        case _:
            sys.exit(__doc__)
