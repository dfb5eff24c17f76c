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
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from redis import Redis

from tests.pipeline.batches import Batches
from tests.pipeline.drill import PROJECT
from tests.pipeline.object_store import KEY, PLACE, SECRET, object_store
from tests.pipeline.raw_streams import write_events
from tests.support.patience import limit
from waystation.pipeline.bronze import ingest
from waystation.pipeline.history import History
from waystation.pipeline.reports.facts import report
from waystation.pipeline.runner import RunOptions, run
from waystation.pipeline.silver.moves import OPEN_ITEMS
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.storage import delta, places
from waystation.pipeline.tables import EVENTS, GAPS, ITEMS

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

STATE = ("job_id", "state")


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a place in an object store that runs on this machine."""
    with object_store(tmp_path) as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        yield PLACE


def test_a_history_lies_in_an_object_store_and_is_asked_without_spark(
    spark: SparkSession,
    bucket: str,
    store: Redis,
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    options = RunOptions(events=EventOptions(url=redis_url))
    history = History(spark, bucket.replace("s3://", "s3a:/"))
    for number in range(2):
        for event in ("added", "waiting", "active", "completed"):
            store.xadd("bull:mail:events", {"event": event, "jobId": str(number)})
        result = run(history, options)
        assert (result.events, result.failed_checks) == (4, ())
    assert history.root == bucket
    assert report(history).verdict.startswith("All jobs are accounted for")
    assert "hadoop-aws" in places.way(bucket)
    assert not list(tmp_path.glob("s3*"))


def test_tasks_of_spark_read_and_write_an_object_store_that_it_has_no_connector_for(
    spark: SparkSession, bucket: str, store: Redis, redis_url: str
) -> None:
    options = RunOptions(events=EventOptions(url=redis_url), write_back=False)
    for number in range(2):
        for event in ("added", "waiting", "active", "completed"):
            store.xadd("bull:mail:events", {"event": event, "jobId": str(number)})
        for event in ("added", "waiting", "active"):
            store.xadd("bull:mail:events", {"event": event, "jobId": f"open-{number}"})
        result = run(History(spark, bucket), options)
        assert (result.events, result.failed_checks) == (7, ())
    history = History(spark, bucket)
    kept = [delta.read_arrow(bucket, table, STATE) for table in (ITEMS, OPEN_ITEMS)]
    assert {tuple(row) for row in history.items().select(*STATE).collect()} == {
        tuple(row.values()) for rows in kept for row in rows.to_pylist()
    }
    assert history.items().where("ended_at is null").count() > 0
    assert history.attempts().count() == 4
    # The day is in the names of folders alone.
    assert history.read(EVENTS).where("date <> to_date(recorded_at) or date is null").count() == 0


def test_the_keys_of_an_object_store_are_nowhere_but_in_the_environment(
    spark: SparkSession,
    bucket: str,
    store: Redis,
    redis_url: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    write_events(store, 30)
    ingest.start(History(spark, bucket).spark, bucket, url=redis_url).finish()
    rows = History(spark, bucket).read(EVENTS).where("queue = 'mail'")
    assert rows.count() == 30
    rows.explain("formatted")
    rows.explain(True)
    with pytest.raises(AnalysisException) as failed:
        rows.select("nothing").collect()
    table: Any = DeltaTable(EVENTS.path(bucket))
    settings = [*spark.sparkContext.getConf().getAll(), *spark.conf.getAll.items()]
    described = (settings, rows, failed.value, table.metadata(), table.history())
    shown = "".join([*capfd.readouterr(), *map(str, described)])
    assert "waystation.parts" in shown
    assert [name for name in (SECRET, KEY) if name in shown] == []


def test_drivers_that_are_killed_and_two_at_a_time_store_every_event_once(
    bucket: str, store: Redis, redis_url: str
) -> None:
    written: list[str] = []
    for _ in range(3):
        drivers = [driver(bucket, redis_url) for _ in range(2)]
        try:
            written += write_events(store, 300)
            stored_at_least(bucket, len(written) - 299, drivers)
        finally:
            for each in drivers:
                each.kill()
                each.wait()
        written += write_events(store, 50)
    Batches(bucket, EventOptions(url=redis_url)).store()

    rows = delta.read_arrow(bucket, EVENTS, EVENTS.key).to_pylist()
    found = Counter(row["entry_id"] for row in rows)
    assert (sorted(found), max(found.values())) == (sorted(written), 1)
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
    intake = Batches(place, EventOptions(url=store_url))
    while True:
        intake.store()
