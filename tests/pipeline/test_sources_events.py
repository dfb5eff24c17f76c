from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows
from redis import Redis

from tests.pipeline.raw_streams import ALL, Following, write_events
from waystation.core.errors import InvalidOption, Malformed
from waystation.pipeline.options import parse
from waystation.pipeline.sources.redis_streams import PAGE_BYTES
from waystation.pipeline.sources.streams import EventOptions, Streams

EVENTS = "bull:mail:events"


def test_everything_is_read_once_in_order_across_batches(store: Redis, redis_url: str) -> None:
    following = Following(redis_url)
    first = write_events(store, 2500)
    assert following.batch().ids == first

    second = write_events(store, 10)
    assert following.batch().ids == second
    assert following.batch().ids == []


def test_many_queues_are_followed_together_and_new_ones_are_found(
    store: Redis, redis_url: str
) -> None:
    following = Following(redis_url, look_every=0.0)
    written = write_events(store, 5, queue="mail") + write_events(store, 5, queue="sms")
    assert sorted(following.batch().ids) == sorted(written)

    assert following.batch().ids == []
    late = write_events(store, 3, queue="push")
    assert following.batch().ids == late


def test_only_the_named_queues_are_followed(store: Redis, redis_url: str) -> None:
    for queue in ("mail", "mail-eu", "sms", "other:mail"):
        write_events(store, 1, queue=queue)

    asked = EventOptions(url=redis_url, products="bullmq", queues="mail*")

    assert {stream.queue for stream in Streams(asked).now()} == {"mail", "mail-eu"}


def test_a_line_whose_queues_share_one_stream_is_followed_whole(redis_url: str) -> None:
    asked = EventOptions(url=redis_url, products="routing", queues="mail*")

    assert [stream.key for stream in Streams(asked).now()] == ["bridge:events:stream"]


def test_a_replay_of_a_batch_reads_the_same(store: Redis, redis_url: str) -> None:
    following = Following(redis_url)
    write_events(store, 100)
    before = following.here
    once = following.batch()
    there, following.here = following.here, before
    write_events(store, 50)

    assert following.again(there).events == once.events


@pytest.mark.parametrize("kept", [0, 1, 300, 999])
def test_a_trimmed_stream_has_a_gap_with_an_exact_count(
    store: Redis, redis_url: str, kept: int
) -> None:
    following = Following(redis_url)
    archived = write_events(store, 10)
    following.batch()
    written = write_events(store, 1000)
    store.xtrim(EVENTS, maxlen=kept, approximate=False)

    batch = following.batch()

    assert len(batch.events) == kept
    assert batch.lost == 1000 - kept
    (account,) = batch.accounts
    assert account["after"] == archived[-1]
    assert account["first"] == (written[-kept] if kept else None)


def test_what_is_trimmed_between_planning_and_reading_is_counted_too(
    store: Redis, redis_url: str
) -> None:
    following = Following(redis_url)
    write_events(store, 1000)
    there = following.stream.latestOffset(following.here, ALL)
    store.xtrim(EVENTS, maxlen=250, approximate=False)

    batch = following.again(there)

    assert (len(batch.events), batch.lost) == (250, 750)


def test_entries_deleted_one_by_one_are_counted_as_lost(store: Redis, redis_url: str) -> None:
    following = Following(redis_url)
    written = write_events(store, 20)
    store.xdel(EVENTS, written[3], written[11])

    assert following.batch().lost == 2


@pytest.mark.parametrize("limit", [1, 7, 5000])
def test_a_limit_bounds_every_batch_and_loses_nothing(
    store: Redis, redis_url: str, limit: int
) -> None:
    written = write_events(store, 40, queue="mail") + write_events(store, 3, queue="sms")
    following = Following(redis_url, per_trigger=limit)
    batches = [following.batch()]
    while batches[-1].events:
        batches.append(following.batch())

    assert all(len(batch.events) <= max(limit, 2) for batch in batches)
    assert sorted(entry for batch in batches for entry in batch.ids) == sorted(written)
    assert sum(batch.lost for batch in batches) == 0


def test_a_limited_batch_after_a_gap_counts_the_gap_once(store: Redis, redis_url: str) -> None:
    write_events(store, 1000)
    store.xtrim(EVENTS, maxlen=400, approximate=False)
    following = Following(redis_url)

    batches = [following.batch(ReadMaxRows(150)) for _ in range(4)]

    assert [len(batch.events) for batch in batches] == [150, 150, 100, 0]
    assert [batch.lost for batch in batches] == [600, 0, 0, 0]


def test_a_run_over_what_is_there_ignores_what_comes_meanwhile(
    store: Redis, redis_url: str
) -> None:
    written = write_events(store, 10)
    following = Following(redis_url)
    following.stream.prepareForTriggerAvailableNow()
    write_events(store, 10)

    assert following.batch().ids == written
    assert following.batch().ids == []


def test_a_stream_made_anew_is_told_and_its_entries_are_read(store: Redis, redis_url: str) -> None:
    following = Following(redis_url)
    write_events(store, 100)
    following.batch()
    store.delete(EVENTS)
    assert following.batch().accounts == []
    anew = write_events(store, 30)

    batch = following.batch()

    assert batch.ids == anew
    (account,) = batch.accounts
    assert (account["recreated"], account["lost"]) == (True, None)


@pytest.mark.parametrize("run", ["once", "for ever"])
def test_a_stream_that_fell_back_is_told_and_followed_from_there(
    store: Redis, redis_url: str, run: str
) -> None:
    following = Following(redis_url)
    store.xadd(EVENTS, {"event": "waiting"}, id="5000-0")
    following.batch()
    store.delete(EVENTS)
    store.xadd(EVENTS, {"event": "waiting"}, id="4000-0")
    if run == "once":
        following.stream.prepareForTriggerAvailableNow()

    (account,) = following.batch().accounts
    store.xadd(EVENTS, {"event": "active"}, id="4500-0")
    if run == "once":
        following.stream.prepareForTriggerAvailableNow()

    assert account["recreated"]
    assert following.batch().ids == ["4500-0"]


def test_only_what_a_finished_batch_holds_is_trimmed(store: Redis, redis_url: str) -> None:
    following = Following(redis_url, trim=True)
    write_events(store, 1000)
    following.batch()
    later = write_events(store, 5)

    following.stream.commit(following.here)

    entries: Any = store.xrange(EVENTS)
    left = [entry.decode() for entry, _ in entries]
    assert left[-5:] == later
    assert len(left) < 1005
    assert following.batch().ids == later


def test_nothing_is_trimmed_unless_asked(store: Redis, redis_url: str) -> None:
    following = Following(redis_url)
    write_events(store, 1000)
    following.batch()

    following.stream.commit(following.here)

    assert store.xlen(EVENTS) == 1000


def test_a_follower_may_start_with_what_comes(store: Redis, redis_url: str) -> None:
    write_events(store, 10)
    following = Following(redis_url, starting="latest")
    new = write_events(store, 2)

    batch = following.batch()

    assert batch.ids == new
    assert batch.lost == 0


def test_huge_entries_come_in_small_pages(store: Redis, redis_url: str) -> None:
    for number in range(40):
        store.xadd(EVENTS, {"event": "completed", "jobId": number, "returnvalue": "x" * 2**20})
    following = Following(redis_url)
    there = following.stream.latestOffset(following.here, ALL)
    (partition,) = following.stream.partitions(following.here, there)

    sizes = [batch.num_rows for batch in following.stream.read(partition)]

    assert sum(sizes) == 41
    assert max(sizes[1:]) <= PAGE_BYTES // 2**20 + 1


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"queue": "mail"}, "wanted one of url, urlEnv"),
        ({"perTrigger": "many"}, "perTrigger"),
        ({"pertrigger": "-1"}, "perTrigger must be at least 0, got -1"),
        ({"products": "bullmq,buses"}, "product must be one of bullmq.*, got 'buses'"),
        ({"starting": "yesterday"}, "starting must be earliest, latest or offsets"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(given: dict[str, str], wanted: str) -> None:
    with pytest.raises(InvalidOption, match=wanted):
        parse(given, EventOptions)


def test_a_url_is_not_shown_in_a_complaint() -> None:
    with pytest.raises(InvalidOption) as refused:
        parse({"url": "redis://:hush@host", "page": "x"}, EventOptions)

    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    "offset", ["{}", '{"v":2,"streams":{}}', '{"v":1,"streams":{"a":["x",1]}}']
)
def test_offsets_that_make_no_sense_are_refused(redis_url: str, offset: str) -> None:
    with pytest.raises(Malformed):
        Following(redis_url, starting=offset)


def test_a_store_must_be_named(monkeypatch: pytest.MonkeyPatch, redis_url: str) -> None:
    monkeypatch.delenv("WAYSTATION_STORE__URL", raising=False)
    with pytest.raises(InvalidOption, match="wanted the option url"):
        Following("")

    monkeypatch.setenv("WAYSTATION_STORE__URL", redis_url)
    assert Following("").batch().ids == []
