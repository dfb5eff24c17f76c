"""`waystation.streams`: streams of any program, driven as Spark drives the source."""

import datetime as dt
from typing import Any, cast

import pytest
from pyspark.sql.types import LongType, MapType, StringType, StructField, StructType
from redis import Redis
from redis.crc import key_slot

from tests.pipeline.raw_streams import Following
from waystation.core.errors import InvalidInput, InvalidOption, ScriptFailed
from waystation.pipeline.sources.any_streams import RedisStreams
from waystation.pipeline.sources.batch_writer import batch_keys
from waystation.pipeline.sources.columns import ENTRY_ROWS
from waystation.pipeline.sources.stream_readers import StreamsFollower, StreamsReader
from waystation.pipeline.sources.stream_writer import home_of
from waystation.pipeline.storage.arrow import pa
from waystation.pipeline.storage.schemas import schema_of


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


def schema(**columns: str) -> StructType:
    kinds = {"text": StringType(), "texts": MapType(StringType(), StringType()), "int": LongType()}
    return StructType([StructField(name, kinds[kind]) for name, kind in columns.items()])


def appended(url: str, rows: list[dict[str, Any]], batch: str = "june", **asked: str) -> None:
    """Append rows as one task of Spark's does, without closing the batch."""
    columns = schema(key="text", n="text", fields="texts")
    source = RedisStreams({"url": url, "stream": "out", "batch": batch, **asked})
    writer = source.writer(columns, False)
    full = [{"n": None, "fields": None, **row} for row in rows]
    writer.write(iter([pa.RecordBatch.from_pylist(full, schema=schema_of(columns))]))


def entries(store: Redis) -> list[dict[bytes, bytes]]:
    return [entry for _, entry in cast(Any, store.xrange("out"))]


def test_a_row_becomes_an_entry_with_its_columns_and_the_fields_of_its_map(
    store: Redis, redis_url: str
) -> None:
    rows: list[dict[str, Any]] = [
        {"key": "a", "n": "1"},
        {"key": "b", "fields": [("who", "Ünï"), ("empty", ""), ("null", None), ("nul", "a\0b")]},
        {"key": "c", "n": "3", "fields": [("who", '"7"')]},
    ]
    appended(redis_url, rows)
    assert entries(store) == [
        {b"n": b"1"},
        {b"who": "Ünï".encode(), b"empty": b"", b"nul": b"a\0b"},
        {b"n": b"3", b"who": b'"7"'},
    ]


def test_each_key_of_a_batch_is_appended_once(store: Redis, redis_url: str) -> None:
    rows = [{"key": f"k{number}", "n": str(number)} for number in range(500)]
    appended(redis_url, rows[:300])
    appended(redis_url, rows + rows, chunk="7")
    assert entries(store) == [{b"n": str(number).encode()} for number in range(500)]
    appended(redis_url, rows[:2], batch="july")
    assert store.xlen("out") == 502


def test_a_closed_batch_takes_nothing_more_and_is_forgotten_in_time(
    store: Redis, redis_url: str
) -> None:
    source = RedisStreams({"url": redis_url, "stream": "out", "batch": "june", "keep": "60"})
    for key in ("a", "b"):
        writer = source.writer(schema(key="text", n="text"), False)
        columns = schema_of(schema(key="text", n="text"))
        batch = pa.RecordBatch.from_pylist([{"key": key, "n": "1"}], schema=columns)
        writer.commit([writer.write(iter([batch]))])
    assert store.xlen("out") == 1
    kept = [key for key in cast(Any, store.keys("*")) if key != b"out"]
    assert kept == [b"{out}:streams:once:june"]
    assert 0 < store.ttl(kept[0]) <= 60


def test_a_stream_can_be_bounded(store: Redis, redis_url: str) -> None:
    rows = [{"key": f"k{number}", "n": str(number)} for number in range(3000)]
    appended(redis_url, rows, most="500")
    assert 500 <= store.xlen("out") < 1000


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([{"key": "a"}], "the row with the key 'a': an entry must have from 1 to 1000 fields"),
        ([{"key": "a", "fields": [(str(n), "") for n in range(1001)]}], "got 1001"),
        ([{"key": None, "n": "1"}], "the key of a row must be text and not empty"),
    ],
)
def test_a_row_that_cannot_be_an_entry_is_refused(
    store: Redis, redis_url: str, rows: list[dict[str, Any]], error: str
) -> None:
    with pytest.raises(InvalidInput, match=error):
        appended(redis_url, rows)
    assert store.xlen("out") == 0


def test_what_is_no_stream_stays_as_it_is(store: Redis, redis_url: str) -> None:
    store.set("out", "a text")
    with pytest.raises(ScriptFailed, match="WRONGTYPE"):
        appended(redis_url, [{"key": "a", "n": "1"}])
    assert (store.keys("*"), store.get("out")) == ([b"out"], b"a text")


@pytest.mark.parametrize(
    ("columns", "given", "wanted"),
    [
        ({"n": "text"}, {}, "wanted the column key, got n"),
        ({"key": "int"}, {}, "the column key must be string, got bigint"),
        ({"key": "text", "n": "int"}, {}, "the column n must be string, got bigint"),
        ({"key": "text", "fields": "text"}, {}, "the column fields must be map<string,string>"),
        ({"key": "text"}, {"chunk": "1001"}, "chunk must be at most 1000"),
        ({"key": "text"}, {"batch": "a:b"}, "hold no colon"),
        ({"key": "text"}, {"stream": ""}, "the key of a stream to write to"),
        ({"key": "text"}, {"stream": "a b"}, "the key of a stream to write to"),
        ({"key": "text"}, {"stream": "a{b"}, "the key of a stream to write to"),
        ({"key": "text"}, {"most": "-1"}, "most must be at least 0"),
        ({"key": "text"}, {"streams": "a"}, "wanted one of stream, batch, url"),
    ],
)
def test_a_write_that_makes_no_sense_is_refused(
    redis_url: str, columns: dict[str, str], given: dict[str, str], wanted: str
) -> None:
    source = RedisStreams({"url": redis_url, "stream": "out", "batch": "june", **given})
    with pytest.raises(InvalidOption, match=wanted):
        source.writer(schema(**columns), False)


def test_a_stream_is_never_replaced(redis_url: str) -> None:
    source = RedisStreams({"url": redis_url, "stream": "out", "batch": "june"})
    with pytest.raises(InvalidOption, match="use mode\\('append'\\)"):
        source.streamWriter(schema(key="text"), True)


@pytest.mark.parametrize("key", ["orders", "clicks:7", "shop:{orders}:out", "{orders}"])
def test_what_is_remembered_lies_on_the_node_of_the_stream(key: str) -> None:
    remembered = batch_keys("streams", home_of(key), "june").done
    assert key_slot(remembered.encode()) == key_slot(key.encode())
