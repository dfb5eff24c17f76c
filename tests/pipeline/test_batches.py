"""Batches of streams in the tables: everything once, whoever else reads and whatever breaks."""

import contextlib
import os
import re
import threading
import time
import tracemalloc
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from redis import Redis

from tests.pipeline.batches import Batches
from tests.pipeline.raw_streams import write_events
from waystation.core.errors import HistoryCut, Malformed, Overtaken
from waystation.pipeline.bronze import commits
from waystation.pipeline.maintenance import erasure
from waystation.pipeline.payloads.rules import PayloadSettings
from waystation.pipeline.refresh.ledger import add_removals
from waystation.pipeline.sources import offsets
from waystation.pipeline.sources.offsets import OFFSETS_NOTE
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.storage import delta, table_log
from waystation.pipeline.storage.arrow import pc
from waystation.pipeline.storage.table_log import every_noted
from waystation.pipeline.tables import EVENTS, FIELD_VALUES, GAPS, PAYLOADS, Table

COLUMNS = ("queue", "after", "before", "lost", "reason")


def reading(root: str, url: str, **asked: Any) -> Batches:
    return Batches(root, EventOptions(url=url, **asked))


def rows(root: str, table: Table, *columns: str) -> list[dict[str, Any]]:
    return delta.read_arrow(root, table, columns).to_pylist()


def ids(root: str) -> list[str]:
    return sorted(row["entry_id"] for row in rows(root, EVENTS, "entry_id"))


def test_the_tables_hold_every_event_once_and_every_gap_by_its_count(
    store: Redis, redis_url: str, root: str
) -> None:
    written = write_events(store, 900, queue="mail")
    trimmed = write_events(store, 1000, queue="sms")
    store.xtrim("bull:sms:events", maxlen=300, approximate=False)
    reader = reading(root, redis_url)
    assert reader.store() == 1200
    written += write_events(store, 5, queue="mail")
    assert (reading(root, redis_url).store(), reading(root, redis_url).store()) == (5, 0)

    assert ids(root) == sorted(written + trimmed[700:])
    (gap,) = rows(root, GAPS, *COLUMNS)
    wanted = ("sms", "0-0", trimmed[700], 700, "trimmed")
    assert tuple(gap[name] for name in COLUMNS) == wanted


def test_one_connection_serves_any_number_of_streams(
    store: Redis, redis_url: str, root: str
) -> None:
    # More than a pool of connections may have.
    queues = [f"queue-{number}" for number in range(120)]
    written = [entry for queue in queues for entry in write_events(store, 1, queue=queue)]
    assert reading(root, redis_url).store() == 120
    assert ids(root) == sorted(written)


def test_streams_are_trimmed_behind_what_is_stored_when_that_is_asked_for(
    store: Redis, redis_url: str, root: str
) -> None:
    written = write_events(store, 1000)
    reading(root, redis_url, trim=True).store()
    # Trimming is approximate: whole nodes of the stream go.
    assert store.xlen("bull:mail:events") < 1000
    written += write_events(store, 10)
    reading(root, redis_url, trim=True).store()
    assert ids(root) == sorted(written)
    assert rows(root, GAPS, "lost") == []


def test_a_commit_notes_the_streams_that_have_moved_and_now_and_then_all(
    store: Redis, redis_url: str, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offsets, "FEW", 2)
    written = {
        f"bull:q{number}:events": write_events(store, 1, queue=f"q{number}") for number in range(3)
    }
    reader = reading(root, redis_url)
    reader.store()
    for turn in range(45):
        written[f"bull:q{turn % 2}:events"] += write_events(store, 1, queue=f"q{turn % 2}")
        assert reader.store() == 1
        reached = commits.offsets_in(root)
        assert {stream: offset.id for stream, offset in reached.items()} == {
            stream: entries[-1] for stream, entries in written.items()
        }
    noted = [each.value for each in every_noted(DeltaTable(EVENTS.path(root)), OFFSETS_NOTE)]
    many = [len(note["streams"]) for note in reversed(noted)]
    assert many == ([3] + [1] * 19) * 2 + [3] + [1] * 5
    assert ids(root) == sorted(entry for entries in written.values() for entry in entries)
    # A log that is cut, as `forget` does, begins with all of them.
    place, reached = EVENTS.path(root), commits.offsets_in(root)
    version = erasure._restate(place, EVENTS)  # pyright: ignore[reportPrivateUsage]
    erasure._cut_log(DeltaTable(place), place, before=version)  # pyright: ignore[reportPrivateUsage]
    assert commits.offsets_in(root) == reached
    # Whoever does not know such notes must not take them for all there is.
    with pytest.raises(Malformed, match="version 1, got 2"):
        offsets.from_json(noted[0])


def make_old(root: str, days: int = 40) -> None:
    """Let everything in the log of events be as old as this."""
    before = int((time.time() - days * 86_400) * 1000)
    for file in Path(EVENTS.path(root), "_delta_log").iterdir():
        if file.suffix == ".json":
            file.write_text(re.sub(r'"timestamp":\d+', f'"timestamp":{before}', file.read_text()))
        os.utime(file, (before / 1000, before / 1000))


def log_of(root: str) -> list[str]:
    return sorted(each.name for each in Path(EVENTS.path(root), "_delta_log").glob("*.json"))


@pytest.mark.slow
def test_offsets_outlive_the_log_of_streams_that_are_silent_for_weeks(
    store: Redis, redis_url: str, root: str
) -> None:
    written = write_events(store, 30)
    reading(root, redis_url).store()
    reached, first = commits.offsets_in(root), log_of(root)[0]
    for turn in range(75):
        if turn % 25 == 0:
            make_old(root)
        commits.complete(root)
        remove(root, turn)
    # As delta-rs does it with entries of this age.
    assert first not in log_of(root)
    assert commits.offsets_in(root) == reached
    assert len(list(every_noted(DeltaTable(EVENTS.path(root)), OFFSETS_NOTE))) == 1
    assert reading(root, redis_url).store() == 0
    written += write_events(store, 3)
    assert reading(root, redis_url).store() == 3
    assert [each for each in ids(root) if each in written] == sorted(written)


def remove(root: str, seconds: int) -> None:
    """Add an event of a job that was found removed."""
    at, folded = datetime.fromtimestamp(seconds, UTC), table_log.version(EVENTS.path(root))
    add_removals(root, [("bullmq", "mail", "1")], at, folded=folded)


def test_events_of_many_removed_jobs_are_made_a_page_at_a_time(
    store: Redis, redis_url: str, root: str
) -> None:
    write_events(store, 1)
    reading(root, redis_url).store()
    folded = table_log.version(EVENTS.path(root))
    gone = [("bullmq", "mail", f"gone-{each}") for each in range(25_000)]
    tracemalloc.start()
    try:
        add_removals(root, gone, datetime.fromtimestamp(1, UTC), folded=folded)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 10_000_000
    rows = delta.read_arrow(root, EVENTS, EVENTS.names).filter(pc.field("event") == "removed")
    assert rows["job_id"].to_pylist() == [each for _, _, each in gone]
    assert rows["seq"].to_pylist() == [*range(len(gone))]
    assert rows["entry_id"][-1].as_py() == "1000-24999"
    assert rows["fields"][-1].as_py() == [("found", "neither its id nor its data")]
    assert rows["at"].unique().to_pylist() == [datetime.fromtimestamp(1, UTC)]


def test_two_drivers_that_find_the_same_job_removed_add_one_event(
    store: Redis, redis_url: str, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_events(store, 5)
    reading(root, redis_url).store()
    folded, gone = table_log.version(EVENTS.path(root)), [("bullmq", "mail", "1")]
    for second in (1, 2):
        add_removals(root, gone, datetime.fromtimestamp(second, UTC), folded=folded)
    assert len(ids(root)) == 6
    whole, turns = delta.commit, [True]

    def overtaken(*given: Any, **more: Any) -> bool:
        if turns:
            turns.clear()
            remove(root, 3)
        return whole(*given, **more)

    monkeypatch.setattr(delta, "commit", overtaken)
    remove(root, 4)
    assert len(ids(root)) == 7


def test_offsets_that_others_store_meanwhile_are_not_set_back(
    store: Redis, redis_url: str, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_events(store, 5)
    reading(root, redis_url).store()
    make_old(root)
    whole = commits.lasting_notes
    raced = [False, True]

    def lasting(table: DeltaTable) -> dict[str, Any]:
        found = whole(table)
        if raced.pop(0):
            write_events(store, 2)
            assert reading(root, redis_url).store() == 2
        return found

    monkeypatch.setattr(commits, "lasting_notes", lasting)
    commits.complete(root)
    assert raced == []
    assert reading(root, redis_url).store() == 0
    assert len(ids(root)) == 7


def test_nothing_is_read_from_the_beginning_because_the_offsets_are_lost(
    store: Redis, redis_url: str, root: str
) -> None:
    write_events(store, 5)
    reader = reading(root, redis_url)
    reader.store()
    cut = log_of(root)
    remove(root, 0)
    DeltaTable(EVENTS.path(root)).create_checkpoint()
    for name in cut:
        Path(EVENTS.path(root), "_delta_log", name).unlink()
    write_events(store, 1)
    with pytest.raises(HistoryCut, match=r"how far each stream was read.*from a backup"):
        reading(root, redis_url).store()
    late = {"product": "bullmq", "queue": "mail", "stream": "bull:mail:events"}
    account = {"after": "0-0", "until": "9-9", "first": None, "added": 6, "read": 6}
    report = {**late, "_range": {**account, "lost": 0, "recreated": False}}
    with pytest.raises(HistoryCut):
        commits.store(root, {}, [report])
    # What needs no offsets still works.
    commits.complete(root)
    assert len(ids(root)) == 6


def add_jobs(store: Redis, *numbers: int, queue: str = "mail") -> None:
    """Jobs in the queue, and the events that they were added."""
    for number in numbers:
        data = f'{{"n":{number}}}'
        store.hset(f"bull:{queue}:{number}", mapping={"name": "send", "data": data})
        store.xadd(f"bull:{queue}:events", {"event": "added", "jobId": str(number), "name": "send"})


def kept_jobs(root: str) -> list[str]:
    """The jobs in `payloads` and in `field_values`."""
    found = [rows(root, table, "job_id") for table in (PAYLOADS, FIELD_VALUES)]
    first, second = (sorted(row["job_id"] for row in each) for each in found)
    assert first == second
    return first


WITH_FIELDS = PayloadSettings(fields={"n": "$.n"})


@pytest.mark.parametrize("allowed", [0, 1, 2, 3, 4])
def test_a_round_cut_short_at_any_commit_is_read_again_or_completed(
    allowed: int, store: Redis, redis_url: str, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = write_events(store, 400)
    store.xtrim("bull:mail:events", maxlen=100, approximate=False)
    add_jobs(store, 10_001, 10_002)
    options = EventOptions(url=redis_url)
    whole, left = delta.commit, allowed

    def cut_short(*given: Any, **more: Any) -> bool:
        nonlocal left
        if left == 0:
            raise KeyboardInterrupt
        left -= 1
        return whole(*given, **more)

    monkeypatch.setattr(delta, "commit", cut_short)
    with contextlib.suppress(KeyboardInterrupt):
        Batches(root, options, WITH_FIELDS).store()
    monkeypatch.setattr(delta, "commit", whole)

    add_jobs(store, 10_003)
    Batches(root, options, WITH_FIELDS).store()
    assert len(ids(root)) == 103
    assert set(written[300:]) < set(ids(root))
    assert [row["lost"] for row in rows(root, GAPS, "lost")] == [300]
    assert [each for each in kept_jobs(root) if len(each) == 5] == ["10001", "10002", "10003"]


def test_a_driver_that_another_one_overtakes_loses_nothing_of_the_others(
    store: Redis, redis_url: str, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_jobs(store, *range(1, 4))
    options = EventOptions(url=redis_url)
    first, second = (Batches(root, options, WITH_FIELDS) for _ in range(2))
    first.store()
    whole, turns = delta.commit, [True]

    def overtaken(path: str, *given: Any, **more: Any) -> bool:
        if path == EVENTS.path(root) and turns:
            turns.clear()
            # More has happened since the first one has read, and some of it is lost.
            add_jobs(store, *range(7, 10))
            store.xtrim("bull:mail:events", maxlen=4, approximate=False)
            assert second.store() == 4
        return whole(path, *given, **more)

    monkeypatch.setattr(delta, "commit", overtaken)
    add_jobs(store, *range(4, 7))
    first.store()
    add_jobs(store, 10)
    assert first.store() == 1

    assert kept_jobs(root) == sorted(map(str, [1, 2, 3, 6, 7, 8, 9, 10]))
    assert sum(row["lost"] for row in rows(root, GAPS, "lost")) == 2
    assert len(ids(root)) == len(set(ids(root))) == 8


def test_a_driver_killed_beside_one_of_other_queues_loses_nothing_and_repeats_nothing(
    store: Redis, redis_url: str, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mail, sms = (
        Batches(root, EventOptions(url=redis_url, products="bullmq", queues=each), WITH_FIELDS)
        for each in ("mail", "sms")
    )
    add_jobs(store, 1, 2)
    add_jobs(store, 3, queue="sms")
    whole, committed = delta.commit, list[str]()

    def raced(path: str, *given: Any, **more: Any) -> bool:
        committed.append(path)
        if len(committed) == 1:
            # While the first one is about to commit, the other does, and is killed right after.
            with pytest.raises(KeyboardInterrupt):
                mail.store()
        elif len(committed) == 3:
            raise KeyboardInterrupt
        return whole(path, *given, **more)

    monkeypatch.setattr(delta, "commit", raced)
    assert sms.store() == 1
    assert committed[:2] == [EVENTS.path(root)] * 2
    assert mail.store() == 0
    assert kept_jobs(root) == ["1", "2", "3"]
    assert len(ids(root)) == 3


def test_drivers_that_read_the_same_streams_at_once_store_every_event_once(
    store: Redis, redis_url: str, root: str
) -> None:
    written: list[str] = []
    errors: list[BaseException] = []
    is_over = threading.Event()

    def drive() -> None:
        reader = reading(root, redis_url)
        try:
            while not is_over.is_set():
                reader.store()
            reader.store()
        except BaseException as error:
            errors.append(error)

    drivers = [threading.Thread(target=drive) for _ in range(3)]
    for driver in drivers:
        driver.start()
    for _ in range(12):
        written += write_events(store, 40, queue="mail") + write_events(store, 10, queue="sms")
    is_over.set()
    for driver in drivers:
        driver.join()
    reading(root, redis_url).store()

    assert errors == []
    found = Counter((row["stream"], row["entry_id"]) for row in rows(root, EVENTS, *EVENTS.key))
    assert (len(found), max(found.values())) == (len(written), 1)


def test_a_batch_of_spark_that_was_overtaken_is_refused(
    store: Redis, redis_url: str, root: str
) -> None:
    write_events(store, 10)
    reader = reading(root, redis_url)
    reader.store()
    late = {"product": "bullmq", "queue": "mail", "stream": "bull:mail:events"}
    account = {"after": "0-0", "until": "9-9", "first": None, "added": 10, "read": 10}
    report = {**late, "_range": {**account, "lost": 0, "recreated": False}}
    with pytest.raises(Overtaken, match="another run has stored events of bull:mail"):
        commits.store(root, {}, [report])
