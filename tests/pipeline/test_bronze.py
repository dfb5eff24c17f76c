"""Streams into tables, on Spark."""

import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import count
from pyspark.sql.streaming.query import StreamingQuery
from redis import Redis

from tests.pipeline.batches import Batches
from tests.pipeline.raw_streams import write_events
from tests.wire.conftest import LATEST, started
from tests.wire.node import NodePeer
from waystation.core.errors import HistoryCut
from waystation.core.events import from_bullmq
from waystation.pipeline.bronze import ingest
from waystation.pipeline.history import History
from waystation.pipeline.maintenance.rebuild import rebuild
from waystation.pipeline.runner import RunOptions, backlog, rows_ahead, run
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.spark.session import register
from waystation.pipeline.storage import delta
from waystation.pipeline.tables import EVENTS, GAPS


def keep_all(spark: SparkSession, root: str, url: str, **asked: Any) -> None:
    ingest.start(spark, root, url=url, **asked).finish()


def events(spark: SparkSession, root: str) -> DataFrame:
    return delta.read(spark, root, EVENTS)


def ids(spark: SparkSession, root: str) -> list[str]:
    return sorted(row["entry_id"] for row in events(spark, root).select("entry_id").collect())


def test_the_tables_hold_every_event_once_and_every_gap_by_its_count(
    spark: SparkSession, store: Redis, redis_url: str, root: str
) -> None:
    written = write_events(store, 900, queue="mail")
    trimmed = write_events(store, 1000, queue="sms")
    store.xtrim("bull:sms:events", maxlen=300, approximate=False)

    keep_all(spark, root, redis_url, perTrigger="500")

    assert ids(spark, root) == sorted(written + trimmed[700:])
    (gap,) = delta.read(spark, root, GAPS).collect()
    assert (gap["queue"], gap["after"], gap["before"]) == ("sms", "0-0", trimmed[700])
    assert (gap["lost"], gap["reason"]) == (700, "trimmed")


def test_malformed_entries_are_kept_and_counted(
    spark: SparkSession, store: Redis, redis_url: str, root: str
) -> None:
    write_events(store, 10)
    odd: list[Any] = [{"jobId": "1"}, {"event": "party"}, {"event": "active", "attemptsMade": "?"}]
    for fields in odd:
        store.xadd("bull:mail:events", fields)
    store.execute_command("XADD", "bull:mail:events", "*", "event", b"\xff\x00", "jobId", "a\0b")
    store.xadd("bull:mail:events", {"event": "completed", "returnvalue": "x" * 2**20})

    keep_all(spark, root, redis_url)

    counted = events(spark, root).agg(count("*"), count("_corrupt")).collect()[0]
    assert tuple(counted) == (15, 4)


@pytest.mark.slow
def test_a_query_that_another_driver_overtakes_goes_on_behind_it(
    spark: SparkSession, store: Redis, redis_url: str, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = write_events(store, 30)
    whole, turns = ingest.commit, [True]

    def overtaken(*given: Any) -> int:
        if turns:
            turns.clear()
            assert Batches(root, EventOptions(url=redis_url)).store() == 30
            written.extend(write_events(store, 20))
        return whole(*given)

    monkeypatch.setattr(ingest, "commit", overtaken)
    assert ingest.start(spark, root, url=redis_url).finish() == 20
    assert ids(spark, root) == sorted(written)


@pytest.mark.slow
def test_a_run_goes_on_where_the_last_one_stopped(
    spark: SparkSession, store: Redis, redis_url: str, root: str
) -> None:
    asked = EventOptions(url=redis_url)
    written = write_events(store, 1000)
    keep_all(spark, root, redis_url, trim="true")
    written += write_events(store, 50)
    assert backlog(asked, root) == 50
    keep_all(spark, root, redis_url, trim="true")
    assert store.xlen("bull:mail:events") < 1000
    assert backlog(asked, root) == 0
    assert ids(spark, root) == sorted(written)
    assert delta.read(spark, root, GAPS).count() == 0


def test_what_was_trimmed_is_no_backlog(store: Redis, redis_url: str, root: str) -> None:
    write_events(store, 50)
    store.xtrim("bull:mail:events", maxlen=20, approximate=False)
    assert backlog(EventOptions(url=redis_url), root) == 20


def test_a_stream_that_began_again_is_all_backlog(store: Redis, redis_url: str, root: str) -> None:
    asked = EventOptions(url=redis_url)
    write_events(store, 50)
    Batches(root, asked).store()
    store.delete("bull:mail:events")
    write_events(store, 30)
    assert backlog(asked, root) == 30


def test_events_that_a_run_stored_and_did_not_fold_are_ahead_of_the_next(
    store: Redis, redis_url: str, root: str
) -> None:
    asked = EventOptions(url=redis_url)
    write_events(store, 50)
    Batches(root, asked).store()
    write_events(store, 30)
    assert rows_ahead(asked, root) == 80


@pytest.mark.slow
def test_two_drivers_follow_the_same_streams(
    spark: SparkSession, store: Redis, redis_url: str, root: str
) -> None:
    # Each with a session of its own, as in two processes.
    first, second = (
        ingest.start(spark.newSession(), root, url=redis_url, every="0 seconds") for _ in range(2)
    )
    written: list[str] = []
    for _ in range(5):
        written += write_events(store, 20)
        while backlog(EventOptions(url=redis_url), root):
            assert first.is_running()
            assert second.is_running()
            time.sleep(0.1)
    for driver in (first, second):
        driver.stop()
    assert ids(spark, root) == sorted(written)


@pytest.mark.slow
def test_events_that_are_gone_are_not_taken_for_folded(
    spark: SparkSession, store: Redis, redis_url: str, root: str
) -> None:
    history, options = History(spark, root), RunOptions(events=EventOptions(url=redis_url))
    written = write_events(store, 30)
    run(history, options)
    shutil.rmtree(EVENTS.path(root))
    with pytest.raises(HistoryCut, match="gone, or older than the tables"):
        run(history, options)

    rebuild(history)
    run(history, options)
    assert [each for each in ids(spark, root) if each in written] == sorted(written)


def test_an_empty_history_has_tables_without_rows(spark: SparkSession, root: str) -> None:
    assert events(spark, root).collect() == []
    assert events(spark, root).schema == EVENTS.schema


PAYLOADS = ("returnvalue", "data")


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_events_written_by_node_come_through_unchanged(
    spark: SparkSession, store: Redis, redis_url: str, root: str
) -> None:
    async with await started(LATEST) as process, NodePeer(process, redis_url) as peer:
        queue = peer.queue("mail")
        await queue.call("add", "send", {"do": [["progress", {"at": 50}], ["return", {"n": 1}]]})
        await queue.call("add", "send", {"do": [["throw", "no such ädress", 9]]}, {"attempts": 2})
        await queue.call("add", "later", {}, {"delay": 60_000})
        worker = peer.worker("mail")
        await worker.until("failed", jobId="2")
        await worker.until("completed", jobId="1")
    written: Any = store.xrange("bull:mail:events")

    keep_all(spark, root, redis_url)

    kept = {row["entry_id"]: row for row in events(spark, root).collect()}
    assert len(kept) == len(written) > 8
    for entry_id, fields in written:
        row, event = kept[entry_id.decode()], from_bullmq("mail", entry_id, fields)
        assert row["_corrupt"] is None
        # What jobs hold and return is kept in `payloads`, where it can be forgotten.
        fields = {name: text for name, text in event.fields.items() if name not in PAYLOADS}
        assert (row["event"], row["job_id"], row["fields"]) == (event.name, event.subject, fields)


def ended(query: StreamingQuery) -> bool:
    """Wait for the end of a query; False when its Python process started too slowly for Spark."""
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        if "Python worker failed to connect back" not in str(error):
            raise
        return False
    return True


@pytest.mark.slow
def test_a_query_that_goes_on_adds_each_key_once_though_it_starts_over(
    spark: SparkSession, store: Redis, redis_url: str, tmp_path: Path
) -> None:
    write_events(store, 40, event="failed")
    # Another test's session may be the one of this thread, where Spark looks for the format.
    register(spark)
    events = spark.readStream.format("waystation.events").options(url=redis_url, queues="mail")
    for attempt in range(2):
        adding = (
            events.load()
            .selectExpr("entry_id AS key", "'look-into' AS name")
            .writeStream.format("waystation.jobs")
            .options(
                url=redis_url,
                queue="care",
                batch="failures",
                checkpointLocation=str(tmp_path / str(attempt)),
            )
            .trigger(availableNow=True)
        )
        while not ended(adding.start()):
            pass

    assert store.llen("bull:care:wait") == 40


def test_every_query_over_the_present_sees_what_it_asks_for_whatever_another_one_left_out(
    spark: SparkSession, store: Redis, redis_url: str
) -> None:
    write_events(store, 30, queue="mail")
    write_events(store, 20, queue="sms")
    now = spark.read.format("waystation.events").option("url", redis_url).load()

    assert now.where("queue = 'sms' AND recorded_at > '2020-01-01'").count() == 20
    assert now.where("recorded_at < '2020-01-01'").count() == 0
    assert now.count() == 50
    for number, state in enumerate(("delayed", "failed", "failed")):
        store.zadd(f"bull:mail:{state}", {str(number): 1})
    asked = {"url": redis_url, "queues": "mail"}
    jobs = spark.read.format("waystation.jobs").options(**asked).load()
    assert jobs.where("state = 'failed'").count() == 2
    assert jobs.count() == 3
