"""One stream with more than a task's share is read by several tasks, each some pieces of it."""

import random
from itertools import pairwise
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from redis import Redis

from tests.pipeline.raw_streams import ALL, Following, write_events
from waystation.core.errors import Overtaken
from waystation.pipeline.bronze import commits, ingest
from waystation.pipeline.bronze.archive import ArchiveOptions, ArchiveStream
from waystation.pipeline.payloads.rules import PayloadSettings
from waystation.pipeline.sources.events import LEAST_ROWS_A_TASK, EventsReader, pieces
from waystation.pipeline.sources.offsets import LAST_SEQ, EventStream, Offset, StreamRange
from waystation.pipeline.sources.redis_streams import rows_of
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.storage import delta
from waystation.pipeline.tables import EVENTS, GAPS

STREAM = EventStream("bullmq", "mail", "bull:mail:events")


def spread(store: Redis, dice: random.Random, many: int, start_ms: int = 1_000) -> list[str]:
    """Entries that are not spread evenly over time, several in some milliseconds; their ids."""
    line, ms = store.pipeline(transaction=False), start_ms
    for number in range(many):
        ms += dice.choice([0, 0, 0, 1, 1, dice.choice([2, 5000])])
        line.xadd(STREAM.key, {"event": "waiting", "jobId": str(number)}, id=f"{ms}-*")
    return [entry.decode() for entry in line.execute()]


def burst(store: Redis, ms: int, many: int, first: int = 0) -> list[str]:
    """Entries of one millisecond; their ids."""
    line = store.pipeline(transaction=False)
    for number in range(first, first + many):
        fields: Any = {"event": "waiting", "jobId": str(number)}
        line.xadd(STREAM.key, fields, id=f"{ms}-{number}")
    return [entry.decode() for entry in line.execute()]


def whole(store: Redis, after: Offset | None = None) -> StreamRange:
    info: Any = store.xinfo_stream(STREAM.key)
    end = Offset(info["last-generated-id"].decode(), info["entries-added"])
    return StreamRange(STREAM, after or Offset(), end)


def read(store: Redis, span: StreamRange) -> tuple[list[str], dict[str, Any]]:
    """The ids of a range, and the report on it."""
    *batches, report = rows_of(store, span, page=100, accounts=True)
    ids = [entry for batch in batches for entry in batch.column("entry_id").to_pylist()]
    return ids, report.select(["product", "queue", "stream", "_range"]).to_pylist()[0]


@pytest.mark.parametrize("many", [1, 2, 7, 64, 5000])
@pytest.mark.parametrize("few", [1, 20])
def test_the_pieces_of_a_range_follow_each_other_and_hold_all_of_it(
    store: Redis, many: int, few: int
) -> None:
    written = spread(store, random.Random(many), 1000)
    span = whole(store)
    cut = pieces(store, span, many=many, few=few)

    assert 1 <= len(cut) <= 2 * many
    assert (cut[0].after, cut[-1].until) == (span.after, span.until)
    assert all(one.until == then.after for one, then in pairwise(cut))
    assert [entry for each in cut for entry in read(store, each)[0]] == written
    assert abs(sum(each.size for each in cut) - span.size) < len(cut)


def test_a_millisecond_is_in_one_piece(store: Redis) -> None:
    spread(store, random.Random(3), 1000)
    found = [read(store, each)[0] for each in pieces(store, whole(store), many=5000, few=1)]
    instants = [{entry.partition("-")[0] for entry in ids} for ids in found]
    assert len(found) > 100
    assert sum(map(len, instants)) == len({ms for each in instants for ms in each})


def test_a_store_whose_clock_went_back_has_all_in_one_millisecond(store: Redis) -> None:
    # Until its clock is there again, the ids of a stream have the same millisecond.
    burst(store, 77_000, 50)
    start = whole(store).until
    written = burst(store, 77_000, 500, first=50)
    (still,) = pieces(store, whole(store, start), many=8, few=1)
    assert still == whole(store, start)
    written += burst(store, 77_003, 10)
    cut = pieces(store, whole(store, start), many=8, few=1)
    assert [each.until.id for each in cut] == [f"77000-{LAST_SEQ}", "77003-9"]
    assert [entry for each in cut for entry in read(store, each)[0]] == written


def test_stragglers_of_last_year_do_not_decide_where_a_stream_is_cut(store: Redis) -> None:
    year_ms = 365 * 86_400_000
    for day in range(12):
        burst(store, day * year_ms // 12, 3, first=1)
    dice = random.Random(4)
    written = spread(store, dice, 5000, start_ms=year_ms)
    cut = pieces(store, whole(store), many=16)
    found = [len(read(store, each)[0]) for each in cut]
    assert sum(found) == 36 + len(written)
    assert len(cut) >= 8
    assert max(found) < len(written) // 2


def test_a_stream_with_the_last_of_all_ids_that_is_made_again_is_read(store: Redis) -> None:
    store.xadd(STREAM.key, {"event": "waiting", "jobId": "1"}, id=f"{LAST_SEQ}-{LAST_SEQ}")
    start = whole(store).until
    store.delete(STREAM.key)
    spread(store, random.Random(6), 100)
    span = whole(store, start)
    assert pieces(store, span, many=8) == [span]


@pytest.mark.parametrize("seed", range(8))
def test_what_is_gone_is_counted_once_wherever_it_was(store: Redis, seed: int) -> None:
    dice = random.Random(seed)
    spread(store, dice, 100)
    start = whole(store).until
    written = spread(store, dice, 1000, start.order[0])
    if gone := dice.sample(written, dice.choice([0, 5, 400])):
        store.xdel(STREAM.key, *gone)
    store.xtrim(STREAM.key, maxlen=dice.choice([1, 250, 600, 2000]), approximate=False)
    span = whole(store, start)
    cut = pieces(store, span, many=dice.choice([2, 9, 300]), few=1)
    # Between planning and reading, too.
    store.xtrim(STREAM.key, maxlen=dice.choice([1, 200, 2000]), approximate=False)
    found = [read(store, each) for each in cut]
    dice.shuffle(found)

    (report,) = commits.joined([report for _, report in found])
    ids, wanted = read(store, span)
    assert sorted(entry for some, _ in found for entry in some) == sorted(ids)
    assert report == wanted


def test_a_stream_that_was_made_again_is_reported_as_such(store: Redis) -> None:
    spread(store, random.Random(1), 500)
    start = whole(store).until
    store.delete(STREAM.key)
    spread(store, random.Random(2), 800, start.order[0] + 1)
    span = whole(store, start)
    (report,) = commits.joined(
        [read(store, each)[1] for each in pieces(store, span, many=16, few=1)]
    )
    assert report == read(store, span)[1]
    assert report["_range"]["recreated"]


def test_reports_that_do_not_follow_each_other_stay_apart(store: Redis) -> None:
    spread(store, random.Random(5), 300)
    cut = pieces(store, whole(store), many=3, few=1)
    one, two, three = (read(store, each)[1] for each in cut)
    assert len(commits.joined([three, one])) == 2
    assert len(commits.joined([three, one, two])) == 1


def archive(url: str, root: str, tasks: int) -> Following:
    options = ArchiveOptions(url=url, root=root, tasks=tasks)
    return Following(url, stream=ArchiveStream(options, PayloadSettings(keep=False)))


def test_a_hot_stream_is_shared_among_tasks(store: Redis, redis_url: str, root: str) -> None:
    dice = random.Random(7)
    written = spread(store, dice, 2 * LEAST_ROWS_A_TASK + 1000) + write_events(
        store, 50, queue="post"
    )
    following = archive(redis_url, root, 2)
    there = following.stream.latestOffset(following.here, ALL)
    shares: Any = following.stream.partitions(following.here, there)
    found = [
        [entry for span in each.ranges if span.stream == STREAM for entry in read(store, span)[0]]
        for each in shares
    ]
    assert len(found) == 2
    assert min(map(len, found)) > len(written) // 4
    assert sorted(entry for ids in found for entry in ids) == sorted(written[:-50])


def test_a_batch_reader_shares_a_hot_stream_as_well(store: Redis, redis_url: str) -> None:
    written = spread(store, random.Random(8), LEAST_ROWS_A_TASK + 1000)
    reader = EventsReader(EventOptions(url=redis_url, tasks=2))
    shares = reader.partitions()
    assert len(shares) == 2
    batches = [batch for each in shares for batch in reader.read(each)]
    found = [entry for batch in batches for entry in batch.column("entry_id").to_pylist()]
    assert sorted(found) == sorted(written)


def test_a_batch_whose_driver_died_before_the_commit_is_stored_once(
    store: Redis, redis_url: str, root: str
) -> None:
    written = spread(store, random.Random(11), 2 * LEAST_ROWS_A_TASK + 500)
    before = archive(redis_url, root, 2)
    start = before.here
    there = before.stream.latestOffset(start, ALL)
    assert len([before.stream.read(each) for each in before.stream.partitions(start, there)]) == 2
    # What comes meanwhile belongs to the next batch, and the first pieces are trimmed.
    later = spread(store, random.Random(12), 500, 1 + int(written[-1].partition("-")[0]))
    store.xtrim(STREAM.key, maxlen=2 * LEAST_ROWS_A_TASK, approximate=False)
    again = archive(redis_url, root, 2)
    commit(again, root, start, there, batch=0)
    with pytest.raises(Overtaken):
        commit(again, root, start, there, batch=0)
    assert commits.offsets_in(root)[STREAM.key].id == written[-1]
    commit(again, root, there, again.stream.latestOffset(there, ALL), batch=1)

    kept = delta.read_arrow(root, EVENTS, ["entry_id"])["entry_id"].to_pylist()
    assert sorted(kept) == sorted((written + later)[1000:])
    (gap,) = delta.read_arrow(root, GAPS, GAPS.names).to_pylist()
    assert (gap["lost"], gap["before"]) == (1000, written[1000])


def commit(following: Following, root: str, start: Any, there: Any, batch: int) -> None:
    """Read a batch and commit it, as Spark does; the tasks end in any order."""
    shares = list(following.stream.partitions(start, there))
    random.Random(batch).shuffle(shares)
    rows = [
        row for each in shares for some in following.stream.read(each) for row in some.to_pylist()
    ]
    ingest.commit(root, rows)


def test_those_who_count_for_themselves_get_one_report_on_a_range(
    store: Redis, redis_url: str
) -> None:
    written = spread(store, random.Random(9), LEAST_ROWS_A_TASK + 1000)
    found = Following(redis_url, tasks=2).batch()
    assert (found.ids, len(found.accounts), found.lost) == (written, 1, 0)


@pytest.mark.slow
def test_the_tables_hold_a_hot_stream_once(
    spark: SparkSession, store: Redis, redis_url: str, root: str
) -> None:
    written = spread(store, random.Random(10), 2 * LEAST_ROWS_A_TASK + 3000)
    store.xtrim(STREAM.key, maxlen=2 * LEAST_ROWS_A_TASK, approximate=False)
    for _ in range(2):
        ingest.start(spark, root, url=redis_url).finish()
    # As many tasks as the executors have cores, each with a file of its own.
    assert len(DeltaTable(EVENTS.path(root)).file_uris()) == spark.sparkContext.defaultParallelism
    rows = delta.read(spark, root, EVENTS).select("entry_id").collect()
    assert sorted(row["entry_id"] for row in rows) == sorted(written[3000:])
    (gap,) = delta.read(spark, root, GAPS).collect()
    assert (gap["lost"], gap["before"]) == (3000, written[3000])
    assert commits.offsets_in(root) == {STREAM.key: whole(store).until}
