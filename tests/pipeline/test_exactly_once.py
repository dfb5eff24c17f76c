"""Everything exactly once, though drivers and workers are killed."""

import hashlib
import os
import random
import subprocess
import sys
import threading
import time
from typing import Any, Self

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from redis import Redis

from tests.pipeline.drill import PROJECT, ROWS, URL, Driver, enqueue
from tests.pipeline.kill_points import GOODS
from waystation.pipeline.bronze import ingest
from waystation.pipeline.sources.jobs import receipt
from waystation.pipeline.storage.arrow import pa
from waystation.pipeline.tables import EVENTS, GAPS

IS_FULL = bool(os.environ.get("WAYSTATION_FULL"))
"""Whether the drills are run at full size, which takes minutes."""
PAUSE_S = 0.02

pytestmark = [
    pytest.mark.slow,
    pytest.mark.full,
    pytest.mark.timeout(3600 if IS_FULL else 900),
]


class Producer:
    """Writes events of four queues, a hundred at a time; keeps some back for each driver."""

    def __init__(self, url: str, many: int, *, drivers: int) -> None:
        self.written: list[bytes] = []
        self._url = url
        self._many = many
        self._share = many // (drivers + 1)
        self._upto = 0
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._upto = self._many
        self._thread.join()

    def go_on(self) -> None:
        """Write another driver's share, bit by bit."""
        self._upto += self._share

    def _write(self) -> None:
        with Redis.from_url(self._url) as client:
            for first in range(0, self._many, 100):
                time.sleep(PAUSE_S)
                while first >= self._upto:
                    time.sleep(PAUSE_S)
                line = client.pipeline(transaction=False)
                for number in range(first, first + 100):
                    fields: Any = {"event": "waiting", "jobId": number}
                    line.xadd(f"bull:q{number % 4}:events", fields)
                self.written.extend(line.execute())


def kept(root: str) -> Any:
    """The events table, sorted."""
    table: Any = DeltaTable(EVENTS.path(root))
    return (
        table.to_pyarrow_table()
        .sort_by([("stream", "ascending"), ("entry_id", "ascending")])
        .combine_chunks()
    )


def fingerprint(table: Any) -> str:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=10_000)
    return hashlib.sha256(sink.getvalue()).hexdigest()


def batches(root: str) -> int:
    place = EVENTS.path(root)
    return DeltaTable(place).version() if DeltaTable.is_deltatable(place) else 0


def test_killed_drivers_and_workers_lose_nothing_and_repeat_nothing(
    spark: SparkSession, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    many, kills = (250_000, 5) if IS_FULL else (10_000, 0)
    root, unbroken = (str(tmp_path_factory.mktemp(name)) for name in ("broken", "unbroken"))
    dice = random.Random(many)
    with Producer(redis_url, many, drivers=kills + 2) as producer:
        if IS_FULL:
            producer.go_on()
            with Driver("follow", root, redis_url, dies="before 1") as driver:
                driver.wait(killed=True)
        producer.go_on()
        with Driver("follow", root, redis_url, dies=f"after {5 if IS_FULL else 1}") as driver:
            before = batches(root)
            driver.wait_for(lambda: batches(root) > before and driver.kill_a_worker(dice))
            driver.wait(killed=True)
        for _ in range(kills):
            producer.go_on()
            with Driver("follow", root, redis_url) as driver:
                before = batches(root)
                driver.wait_for(lambda before=before: batches(root) > before)
                time.sleep(dice.uniform(0, 3))
        # All of them died while there was more to come.
        assert len(producer.written) < many
    for place in (root, unbroken):
        ingest.start(spark, place, url=redis_url).finish()

    table = kept(root)
    ids = list(zip(table["stream"].to_pylist(), table["entry_id"].to_pylist(), strict=True))
    assert len(ids) == len(producer.written) == many
    assert len(set(ids)) == many
    assert fingerprint(table) == fingerprint(kept(unbroken))
    assert not DeltaTable.is_deltatable(GAPS.path(root))


@pytest.mark.long
def test_an_enqueue_whose_drivers_were_killed_adds_each_key_once(
    spark: SparkSession, redis_url: str, store: Redis
) -> None:
    kills = 5 if IS_FULL else 1
    dice = random.Random(7)
    for nth in range(kills):
        # In the first half: a driver that is left much less may have finished when it is killed.
        enough = ROWS * (nth + dice.random()) / (kills + 1) / 2
        with Driver("enqueue", "june", redis_url) as driver:
            driver.wait_for(lambda enough=enough: store.llen("bull:bulk:wait") > enough)
    assert 0 < store.llen("bull:bulk:wait") < ROWS
    enqueue(spark, "june", redis_url)

    assert store.llen("bull:bulk:wait") == ROWS
    found = receipt(redis_url, "bulk", "june")
    assert found is not None
    assert (found.jobs, found.rows) == (ROWS, 2 * ROWS)


def test_an_enqueue_killed_at_any_word_with_the_store_adds_each_key_once(redis_url: str) -> None:
    keys, chunk = (2_000, 100) if IS_FULL else (24, 4)
    done = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.kill_points", str(keys), str(chunk)],
        cwd=PROJECT,
        env={**os.environ, URL: redis_url},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    deaths = dict(line.split() for line in done.stdout.splitlines())
    assert deaths.keys() == GOODS.keys()
    # Three for each call: not sent, sent and not answered, answered.
    assert all(int(many) > 3 * keys // chunk for many in deaths.values())
