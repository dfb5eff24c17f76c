"""`waystation.streams`: streams of any program, driven as Spark drives the source."""

import datetime as dt
from typing import Any, cast

import pytest
from redis import Redis

from tests.pipeline.raw_streams import Following
from waystation.core.errors import InvalidOption
from waystation.pipeline.sources.columns import ENTRY_ROWS
from waystation.pipeline.sources.events import RedisStreams, StreamsFollower, StreamsReader


def following(url: str, streams: str, **asked: str) -> Following:
    source = RedisStreams({"url": url, "streams": streams, "lookEvery": "0", **asked})
    return Following(url, stream=cast(StreamsFollower, source.streamReader(ENTRY_ROWS)))


def reader(url: str, streams: str) -> StreamsReader:
    source = RedisStreams({"url": url, "streams": streams})
    return cast(StreamsReader, source.reader(ENTRY_ROWS))


def rows(reader: StreamsReader) -> list[dict[str, Any]]:
    return [
        row
        for partition in reader.partitions()
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]


def add(store: Redis, key: str, many: int) -> list[str]:
    line = store.pipeline(transaction=False)
    for number in range(many):
        line.xadd(key, {"n": str(number), "kind": "click"})
    return [entry.decode() for entry in line.execute()]


def test_keys_and_patterns_are_followed_and_new_streams_are_found(
    store: Redis, redis_url: str
) -> None:
    first = add(store, "orders", 30) + add(store, "clicks:1", 20)
    add(store, "other", 5)
    store.rpush("clicks:list", "no stream")
    follows = following(redis_url, "orders, clicks:*")
    found = follows.batch()
    assert sorted(found.ids) == sorted(first)
    assert {row["stream"] for row in found.events} == {"orders", "clicks:1"}
    assert follows.batch().ids == []
    assert follows.batch().accounts == []
    second = add(store, "clicks:2", 3) + add(store, "orders", 2)
    assert sorted(follows.batch().ids) == sorted(second)


def test_a_row_has_the_stream_the_id_the_instant_and_the_fields(
    store: Redis, redis_url: str
) -> None:
    store.xadd("orders", {"total": "7", "who": "Ünï"}, id="1700000000123-4")
    (row,) = rows(reader(redis_url, "orders"))
    assert row == {
        "stream": "orders",
        "entry_id": "1700000000123-4",
        "at": dt.datetime.fromtimestamp(1700000000.123, dt.UTC),
        "fields": [("total", "7"), ("who", "Ünï")],
        "_range": None,
    }


def test_what_is_no_text_and_names_that_come_twice_are_kept(store: Redis, redis_url: str) -> None:
    store.execute_command("XADD", "odd", "9" * 16 + "-1", b"\xff", b"\x00\xfe", "a", "1", "a", "2")
    store.execute_command("XADD", "plain", "5-1", "a", "1")
    odd, plain = rows(reader(redis_url, "odd,plain"))
    assert odd["fields"] == [("\\xff", "\x00\\xfe"), ("a", "1"), ("a#2", "2")]
    # An id after the year 9999 has the last instant that can be represented.
    assert odd["at"].year == 9999
    assert (odd["entry_id"], plain["fields"]) == ("9999999999999999-1", [("a", "1")])


def test_what_was_trimmed_is_counted_and_a_limit_bounds_every_batch(
    store: Redis, redis_url: str
) -> None:
    ids = add(store, "orders", 100)
    store.xtrim("orders", maxlen=60, approximate=False)
    follows = following(redis_url, "orders", perTrigger="25")
    batches = [follows.batch() for _ in range(4)]
    assert [each for batch in batches for each in batch.ids] == ids[40:]
    assert max(len(batch.ids) for batch in batches) <= 25
    assert sum(batch.lost for batch in batches) == 40


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, "missing required field `streams`"),
        ({"streams": " , "}, "streams must name at least one"),
        ({"streams": "a", "queues": "b"}, "wanted one of url, urlEnv"),
        ({"streams": "a", "page": "0"}, "page must be at least 1"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(
    redis_url: str, given: dict[str, str], wanted: str
) -> None:
    with pytest.raises(InvalidOption, match=wanted):
        RedisStreams({"url": redis_url, **given}).reader(ENTRY_ROWS)
