"""A history in an object store: exact counts, whoever is killed and however many drivers there are.

`python -m tests.pipeline.test_object_store ROOT URL` stores events until it is killed.
"""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from redis import Redis

from tests.pipeline.drill import PROJECT
from tests.pipeline.object_store import PLACE, object_store
from tests.pipeline.raw_streams import tell
from tests.support.patience import limit
from waystation.pipeline.bronze.intake import Intake
from waystation.pipeline.history import History
from waystation.pipeline.reports.facts import report
from waystation.pipeline.runner import RunOptions, run
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.storage import delta, places
from waystation.pipeline.tables import EVENTS, GAPS

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a place in an object store that runs on this machine."""
    with object_store(tmp_path) as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        yield PLACE


def no_spark() -> NoReturn:
    raise AssertionError("Spark was started")


def test_a_history_lies_in_an_object_store_and_spark_is_not_needed(
    bucket: str, store: Redis, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = RunOptions(events=EventOptions(url=redis_url))
    # However many rows there are: Spark has no connector here.
    history = History(no_spark, bucket.replace("s3://", "s3a:/"), spark_from=1)
    for number in range(2):
        for event in ("added", "waiting", "active", "completed"):
            store.xadd("bull:mail:events", {"event": event, "jobId": str(number)})
        result = run(history.fresh(), options)
        assert (result.events, result.failed_checks) == (4, ())
    assert history.root == bucket
    assert report(history).verdict.startswith("All jobs are accounted for")
    assert "hadoop-aws" in places.way(bucket)
    assert not list(tmp_path.glob("s3*"))


def test_drivers_that_are_killed_and_two_at_a_time_store_every_event_once(
    bucket: str, store: Redis, redis_url: str
) -> None:
    told: list[str] = []
    for _ in range(3):
        drivers = [driver(bucket, redis_url) for _ in range(2)]
        try:
            told += tell(store, 300)
            stored_at_least(bucket, len(told) - 299, drivers)
        finally:
            for each in drivers:
                each.kill()
                each.wait()
        told += tell(store, 50)
    Intake(bucket, EventOptions(url=redis_url)).store()

    rows = delta.read_arrow(bucket, EVENTS, EVENTS.key).to_pylist()
    found = Counter(row["entry_id"] for row in rows)
    assert (sorted(found), max(found.values())) == (sorted(told), 1)
    assert delta.read_arrow(bucket, GAPS, ("lost",)).num_rows == 0


def driver(root: str, url: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.pipeline.test_object_store", root, url],
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )


def stored_at_least(root: str, many: int, drivers: list[subprocess.Popen[bytes]]) -> None:
    until = time.monotonic() + limit(300)
    while delta.count(EVENTS.path(root)) < many:
        assert time.monotonic() < until, "the drivers store nothing"
        assert all(each.poll() is None for each in drivers), "a driver has ended by itself"
        time.sleep(0.1)


if __name__ == "__main__":
    place, store_url = sys.argv[1:]
    intake = Intake(place, EventOptions(url=store_url))
    while True:
        intake.store()
