"""Streams that are deleted, recreated, shortened or quiet while they are followed."""

import os
import threading
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession
from redis import Redis

from tests.pipeline.batches import Batches
from tests.pipeline.rounds import history_at
from waystation.pipeline.bronze.archive import ArchiveStream
from waystation.pipeline.history import History
from waystation.pipeline.runner import (
    STREAM_LIMIT,
    Rounds,
    RunOptions,
    RunResult,
    follow,
    raise_stream_limits,
    run,
)
from waystation.pipeline.sources.offsets import Offset
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.storage import delta
from waystation.pipeline.tables import EVENTS, LEDGER

STREAM = "bull:mail:events"


def write_entries(store: Redis, *ids: str) -> None:
    for each in ids:
        store.xadd(STREAM, {"event": "waiting", "jobId": "1"}, id=each)


def stored(root: str) -> list[str]:
    return sorted(delta.read_arrow(root, EVENTS, ("entry_id",))["entry_id"].to_pylist())


def test_whatever_is_in_a_stream_that_went_back_is_stored_once(
    store: Redis, redis_url: str, root: str
) -> None:
    reader = Batches(root, EventOptions(url=redis_url))
    write_entries(store, "1000-0", "2000-0", "3000-0")
    reader.store()
    # Another stream of that name, by a clock that is behind.
    store.delete(STREAM)
    write_entries(store, "500-0", "600-0")
    reader.store()
    assert stored(root) == ["1000-0", "2000-0", "3000-0", "500-0", "600-0"]
    write_entries(store, "700-0")
    reader.store()
    assert stored(root)[-1] == "700-0"
    # A replica that did not have the end.
    store.delete(STREAM)
    write_entries(store, "500-0", "650-0")
    reader.store()
    assert stored(root) == ["1000-0", "2000-0", "3000-0", "500-0", "600-0", "650-0", "700-0"]


def test_nothing_is_trimmed_before_all_that_stands_for_it_is_on_the_disk(
    store: Redis, redis_url: str, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    sync, trim = os.fsync, ArchiveStream.commit

    def noting(descriptor: int) -> None:
        done.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        sync(descriptor)

    def trimming(self: ArchiveStream, end: dict[str, Any]) -> None:
        done.append("trim")
        trim(self, end)

    monkeypatch.setattr(os, "fsync", noting)
    monkeypatch.setattr(ArchiveStream, "commit", trimming)
    write_entries(store, "1000-0", "2000-0")
    Batches(root, EventOptions(url=redis_url, trim=True)).store()
    before = done[: done.index("trim")]
    events = EVENTS.path(root)
    (commit,) = [each for each in before if each.endswith(".json")]
    (file,) = [each for each in before if each.endswith(".parquet")]
    # What is written, then the names by which it is found.
    assert before.index(file) < before.index(commit) < before.index(f"{events}/_delta_log")
    assert str(Path(file).parent) in before
    assert done[-1] == "trim"


@pytest.mark.parametrize("how", ["deleted", "recreated", "renamed", "flushed"])
def test_a_stream_that_is_gone_is_not_waited_for(
    store: Redis, redis_url: str, root: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Rounds, "refresh", Mock())
    write_entries(store, "1000-0", "2000-0")
    rounds = Rounds(history_at(root), RunOptions(events=EventOptions(url=redis_url)))
    assert not rounds.after(0)
    match how:
        case "flushed":
            store.flushdb()
        case "renamed":
            store.rename(STREAM, "elsewhere")
        case _:
            store.delete(STREAM)
    if how == "recreated":
        write_entries(store, "5-0")
    assert rounds.after(0)


def test_a_stream_has_room_for_what_comes_while_a_round_lasts(store: Redis, redis_url: str) -> None:
    write_entries(store, "1000-0")
    events, before = EventOptions(url=redis_url), {STREAM: Offset("1-0", 10)}
    for grown, wanted in ((10, STREAM_LIMIT), (50_000, 200_000), (10**9, 10 * STREAM_LIMIT)):
        reached = {STREAM: Offset("1000-0", 10 + grown)}
        raise_stream_limits(events, before=before, reached=reached)
        assert int(cast(Any, store.hget("bull:mail:meta", "opts.maxLenEvents"))) == wanted


@pytest.mark.slow
def test_marks_and_limits_are_renewed_by_the_clock(
    store: Redis, redis_url: str, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a queue in which nothing happens, and of one that is new."""
    monkeypatch.setattr(Rounds, "refresh", Mock())
    write_entries(store, "1000-0")
    rounds, stop = list[bytes](), threading.Event()

    def look(_: RunResult) -> None:
        rounds.append(cast(bytes, store.hget("bull:mail:meta", "history")))
        if len(rounds) == 1:
            # The mark has run out meanwhile.
            store.hset("bull:mail:meta", "history", "0:1")
            store.xadd("bull:late:events", {"event": "waiting", "jobId": "1"})
        elif len(rounds) == 3:
            stop.set()

    options = RunOptions(events=EventOptions(url=redis_url), every=0, write_back=False)
    follow(history_at(root), options, stop, on_round=look)
    reached, until = rounds[-1].split(b":")
    assert int(reached) == 1000
    assert int(until) > 10**12
    assert int(cast(Any, store.hget("bull:late:meta", "opts.maxLenEvents"))) == STREAM_LIMIT


@pytest.mark.slow
def test_a_round_follows_each_batch_of_the_query_and_the_clock(
    spark: SparkSession, store: Redis, redis_url: str, root: str
) -> None:
    history = History(spark, root)
    write_entries(store, "1000-0", "2000-0")
    store.hset("bull:mail:1", mapping={"data": "{}"})
    store.lpush("bull:mail:wait", "1")
    rounds, stop = list[tuple[int, int, int]](), threading.Event()

    def look(result: RunResult) -> None:
        (row,) = delta.read_arrow(root, LEDGER, LEDGER.names).to_pylist()
        rounds.append((result.events, row["visible"], row["removed"]))
        if len(rounds) == 1:
            # Without an event.
            store.delete("bull:mail:1", "bull:mail:wait")
        if rounds[-1][-1]:
            stop.set()

    options = RunOptions(events=EventOptions(url=redis_url), every=0, write_back=False)
    follow(history, options, stop, on_round=look)
    assert rounds[0] == (2, 1, 0)
    assert {events for events, _, _ in rounds[1:]} == {0}
    assert rounds[-1] == (0, 0, 1)
    versions = delta.open_table(EVENTS.path(root), EVENTS.schema).version()
    assert run(history, options).events == 0
    # A batch without events leaves no trace in the tables of events.
    assert delta.open_table(EVENTS.path(root), EVENTS.schema).version() == versions
