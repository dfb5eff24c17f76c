"""Streams that are deleted, recreated, shortened or quiet while they are followed."""

import os
import threading
from pathlib import Path
from typing import Any, cast

import pytest
from redis import Redis

from tests.pipeline.batches import Batches
from tests.pipeline.rounds import history_at
from tests.support.patience import LIMIT_S
from waystation.pipeline import runner
from waystation.pipeline.bronze.archive import ArchiveStream
from waystation.pipeline.progress import NoProgress
from waystation.pipeline.refresh.snapshot import take_snapshot
from waystation.pipeline.runner import STREAM_LIMIT, RunOptions, RunResult, follow
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.storage import delta
from waystation.pipeline.tables import EVENTS

STREAM = "bull:mail:events"


def tell(store: Redis, *ids: str) -> None:
    for each in ids:
        store.xadd(STREAM, {"event": "waiting", "jobId": "1"}, id=each)


def stored(root: str) -> list[str]:
    return sorted(delta.read_arrow(root, EVENTS, ("entry_id",))["entry_id"].to_pylist())


def test_whatever_is_in_a_stream_that_went_back_is_stored_once(
    store: Redis, redis_url: str, root: str
) -> None:
    reader = Batches(root, EventOptions(url=redis_url))
    tell(store, "1000-0", "2000-0", "3000-0")
    reader.store()
    # Another stream of that name, by a clock that is behind.
    store.delete(STREAM)
    tell(store, "500-0", "600-0")
    reader.store()
    assert stored(root) == ["1000-0", "2000-0", "3000-0", "500-0", "600-0"]
    tell(store, "700-0")
    reader.store()
    assert stored(root)[-1] == "700-0"
    # A replica that had not heard of the end.
    store.delete(STREAM)
    tell(store, "500-0", "650-0")
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
    tell(store, "1000-0", "2000-0")
    Batches(root, EventOptions(url=redis_url, trim=True)).store()
    before = done[: done.index("trim")]
    events = EVENTS.path(root)
    (commit,) = [each for each in before if each.endswith(".json")]
    (file,) = [each for each in before if each.endswith(".parquet")]
    # What is written, then the names by which it is found.
    assert before.index(file) < before.index(commit) < before.index(f"{events}/_delta_log")
    assert str(Path(file).parent) in before
    assert done[-1] == "trim"


class Idle:
    """A reading that finds nothing."""

    events = 0

    def is_running(self) -> bool:
        return True


@pytest.mark.parametrize("how", ["deleted", "recreated", "renamed", "flushed"])
def test_a_stream_that_is_gone_is_not_waited_for(
    store: Redis, redis_url: str, root: str, how: str
) -> None:
    tell(store, "1000-0", "2000-0")
    snapshot = take_snapshot(EventOptions(url=redis_url))
    match how:
        case "flushed":
            store.flushdb()
        case "renamed":
            store.rename(STREAM, "elsewhere")
        case _:
            store.delete(STREAM)
    if how == "recreated":
        tell(store, "5-0")
    stop = threading.Event()
    given: Any = (snapshot, history_at(root), Idle(), stop, NoProgress())
    waiting = threading.Thread(target=runner._wait_for, args=given)  # pyright: ignore[reportPrivateUsage]
    waiting.start()
    waiting.join(LIMIT_S)
    is_waiting = waiting.is_alive()
    stop.set()
    waiting.join()
    assert not is_waiting


def test_marks_and_limits_are_renewed_by_the_clock(store: Redis, redis_url: str, root: str) -> None:
    """Of a queue in which nothing happens, and of one that is new."""
    tell(store, "1000-0")
    rounds, stop = list[bytes](), threading.Event()

    def look(_: RunResult) -> None:
        rounds.append(cast(bytes, store.hget("bull:mail:meta", "history")))
        if len(rounds) == 1:
            # The mark has run out meanwhile.
            store.hset("bull:mail:meta", "history", "0:1")
            store.xadd("bull:late:events", {"event": "waiting", "jobId": "1"})
        elif len(rounds) == 3:
            stop.set()

    options = RunOptions(
        events=EventOptions(url=redis_url), batch_every=0.05, refresh_every=0, write_back=False
    )
    follow(history_at(root), options, stop, on_round=look)
    reached, until = rounds[-1].split(b":")
    assert int(reached) == 1000
    assert int(until) > 10**12
    assert int(cast(Any, store.hget("bull:late:meta", "opts.maxLenEvents"))) == STREAM_LIMIT
