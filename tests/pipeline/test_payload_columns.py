"""Rows of payloads are the same whichever way their values are turned into columns."""

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from redis import Redis

from tests.pipeline.batches import Batches
from waystation.pipeline.bronze import capture
from waystation.pipeline.bronze.payload_columns import (
    FIELDS,
    GONE,
    REPLACED,
    JobEntries,
    PayloadColumns,
    ReadJobs,
)
from waystation.pipeline.payloads.paths import DeclaredFields, JsonPath
from waystation.pipeline.payloads.rules import PayloadSettings, Rules
from waystation.pipeline.sources import redis_streams
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.storage.arrow import pq

STREAM = "bull:mail:events"


def rows_of(*hashes_found: dict[str, Any], **settings: Any) -> list[dict[str, Any]]:
    """The rows of jobs with these hashes; of one that has none, the job is gone."""
    options = PayloadSettings(**settings)
    jobs = ReadJobs()
    values = [
        [_raw(each[name.decode()]) if name.decode() in each else None for name in FIELDS]
        for each in hashes_found
    ]
    subjects = [str(number).encode() for number in range(len(values))]
    jobs.extend(subjects, [JobEntries(b"1700000000000-0") for _ in values], values)
    columns = PayloadColumns("mail", options, Rules(options).of("mail"))
    return columns.batches(jobs).payloads.to_pylist()


def _raw(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def stored(root: Path, table: str = "payloads") -> list[dict[str, Any]]:
    """The rows in the files of a bronze table."""
    files = (root / "bronze" / table).rglob("*.parquet")
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


@pytest.mark.parametrize(
    ("given", "number"),
    [
        ("0", 0),
        ("-3", -3),
        ("2147483647", 2**31 - 1),
        ("2147483648", None),
        ("9" * 18, None),
        ("9" * 40, None),
        ("1e3", None),
        ("0x10", None),
        ("+1", None),
        (" 1", None),
        ("", None),
        ("-", None),
        ("٣", None),
        (b"\xff", None),
    ],
)
def test_a_number_that_is_none_is_null(given: Any, number: int | None) -> None:
    for row in rows_of({"name": "a", "priority": given}, {"name": "b", "priority": 0})[:1]:
        assert row["priority"] == number


def test_what_a_job_lacks_is_null_and_its_options_are_empty() -> None:
    (row,) = rows_of({"data": "{}"})
    assert (row["data"], row["options"], row["bytes"]) == ("{}", "{}", 2)
    empty = ("added_at", "name", "priority", "result", "logs", "fields", "left_out", "trace")
    assert [row[name] for name in empty] == [None] * len(empty)


def test_a_job_that_is_gone_has_no_options_and_no_size() -> None:
    gone, job = rows_of({}, {"name": "send", "data": "1"})
    assert (gone["left_out"], gone["options"], gone["bytes"]) == (GONE, None, None)
    assert (job["left_out"], job["options"], job["bytes"]) == (None, "{}", 1)


def test_bytes_that_are_no_text_are_written_out() -> None:
    bad, good = rows_of({"data": b'"\xff"', "name": b"\xfe"}, {"data": '"ü"'})
    assert (bad["data"], bad["name"], bad["bytes"]) == ('"\\xff"', "\\xfe", 3)
    assert (good["data"], good["bytes"]) == ('"ü"', 4)


def test_the_instant_of_adding_lies_between_1970_and_the_year_9999() -> None:
    given = ("1700000000123", "-1", "253402300799999", "x")
    found = [row["added_at"] for row in rows_of(*({"timestamp": each} for each in given))]
    assert found[0].isoformat() == "2023-11-14T22:13:20.123000+00:00"
    assert found[1:] == [None, None, None]


def test_attempts_have_two_names() -> None:
    found = rows_of({"atm": "2", "attemptsMade": "9"}, {"attemptsMade": "3"}, {"name": "a"})
    assert [row["attempts"] for row in found] == [2, 3, None]


def test_group_and_trace_come_from_the_options() -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    carried = json.dumps({"traceparent": f"00-{trace}-b7ad6b7169203331-01"})
    found = rows_of(
        {"opts": json.dumps({"group": {"id": "acme"}, "tm": carried})},
        {"opts": '{"attempts":3}'},
        {"opts": '{"group":7,"tm":[]}'},
        {"opts": 'no json with "group" and "tm"'},
        {"opts": b'\xff"group"'},
        {"name": "a"},
    )
    assert [row["group"] for row in found] == ["acme", *[None] * 5]
    assert [row["trace"] for row in found] == [trace, *[None] * 5]


MINUTE = 60_000


def test_data_is_that_of_the_life_of_its_row_or_none(
    store: Redis, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lives of few ids, cut into batches anywhere: a hash is that of the last one alone."""
    dice = random.Random(12)
    # Jobs are read while later lives of theirs are in the same range.
    monkeypatch.setattr(capture, "MOST_WAITING", 2)
    monkeypatch.setattr(redis_streams, "BATCH_ROWS", 1)
    intake = Batches(str(tmp_path), EventOptions(url=redis_url, page=1), PayloadSettings())
    at = 1_700_000_000_000
    for life in range(30):
        job, at = str(dice.randrange(3)), at + 5 * MINUTE
        hash_key = f"bull:mail:{job}"
        store.delete(hash_key)
        store.hset(hash_key, mapping={"name": "n", "timestamp": at, "data": str(life)})
        store.xadd(STREAM, {"event": "added", "jobId": job, "life": life}, id=f"{at}-0")
        if dice.random() < 0.3:
            intake.store()
        if dice.random() < 0.7:
            at += dice.randrange(1, MINUTE)
            store.xadd(STREAM, {"event": "completed", "jobId": job, "life": life}, id=f"{at}-0")
            store.hset(hash_key, "finishedOn", at)
        if dice.random() < 0.3:
            intake.store()
    intake.store()
    lives = {row["entry_id"]: dict(row["fields"])["life"] for row in stored(tmp_path, "events")}
    by_instant = {int(entry.partition("-")[0]): life for entry, life in lives.items()}
    rows = stored(tmp_path)
    assert sum(row["data"] is not None for row in rows) > 10
    assert sum(row["left_out"] == REPLACED for row in rows) > 3
    for row in rows:
        read_ms = round(row["read_at"].timestamp() * 1000)
        assert row["data"] in (None, by_instant[read_ms]), row


def test_what_is_too_large_is_left_out_of_that_row_alone() -> None:
    large = json.dumps("x" * 2000)
    found = rows_of({"data": "1"}, {"data": large}, {"data": "2", "returnvalue": large}, limit=1024)
    assert [row["data"] for row in found] == ["1", None, "2"]
    assert [row["bytes"] for row in found] == [1, 2002, 2003]
    assert found[0]["left_out"] is None
    assert found[1]["left_out"].startswith("data has 2002 bytes, sha256 ")
    assert found[2]["left_out"].startswith("result has 2002 bytes, sha256 ")


FIELD_PATHS = [
    {"tenant": "$.tenant", "order": "$.order.id", "deep": "$.order.of.id"},
    {"order": "$.order", "id": "$.order.id"},
    {"id": "$.order.id", "order": "$.order"},
    {"first": "$.items[0].id", "tenant": "$.tenant"},
    {"same": "$.tenant", "again": "$.tenant"},
    {"any": "$..id"},
]


@pytest.mark.parametrize("paths", FIELD_PATHS, ids=repr)
def test_declared_fields_are_those_that_a_walk_through_the_document_finds(
    paths: dict[str, str],
) -> None:
    dice = random.Random(11)
    declared = DeclaredFields(paths)
    documents: list[Any] = [_document(dice, depth=4) for _ in range(500)]
    documents += [None, [], "text", {"order": []}, {"tenant": "ü" * 300}]
    for document in documents:
        text = json.dumps(document, ensure_ascii=False)
        wanted = [
            (name, (first if isinstance(first, str) else _json(first))[:200])
            for name, path in paths.items()
            for first in list(JsonPath.parse(path).values(document))[:1]
            if first is not None
        ]
        assert declared.of(text) == declared.of(text.encode()) == wanted


@pytest.mark.parametrize("text", [None, "", "{", "no json", b"\xff", b'{"tenant":"\xff"}'])
def test_a_document_that_cannot_be_read_has_no_fields(text: Any) -> None:
    assert DeclaredFields(FIELD_PATHS[0]).of(text) == []


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _document(dice: random.Random, depth: int) -> Any:
    if depth == 0 or dice.random() < 0.2:
        leaves: list[Any] = [None, 1, 1.5, True, "a", "ü\n", [], {}]
        return dice.choice(leaves)
    if dice.random() < 0.2:
        return [_document(dice, depth - 1) for _ in range(dice.randrange(3))]
    names = dice.sample(["tenant", "order", "of", "id", "items", "other"], dice.randrange(1, 6))
    return {name: _document(dice, depth - 1) for name in names}


def test_jobs_of_all_sizes_are_read_page_by_page(
    store: Redis, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture, "PAGE_BYTES", 20_000)
    monkeypatch.setattr(capture, "BATCH_BYTES", 50_000)
    wanted: dict[str, tuple[str, list[str] | None]] = {}
    asking = store.pipeline(transaction=False)
    for number in range(400):
        data = json.dumps({"n": number, "x": "x" * (number * 97 % 5000)})
        asking.hset(f"bull:mail:{number}", mapping={"name": "send", "data": data})
        asking.xadd(STREAM, {"event": "added", "jobId": number, "name": "send"})
        asking.xadd(STREAM, {"event": "completed", "jobId": number, "returnvalue": "1"})
        lines = [f"line {number}"] if number % 50 == 0 else None
        for line in lines or ():
            asking.rpush(f"bull:mail:{number}:logs", line)
        wanted[str(number)] = (data, lines)
    asking.execute()
    store.set("bull:mail:7:logs", "no logs at all")
    settings = PayloadSettings(fields={"n": "$.n"})
    Batches(str(tmp_path), EventOptions(url=redis_url), settings).store()
    found = stored(tmp_path)
    assert {row["job_id"]: (row["data"], row["logs"]) for row in found} == wanted
    assert len(found) == len(wanted)
    assert all(row["left_out"] is None and row["result"] == "1" for row in found)
    values = {row["job_id"]: row["value"] for row in stored(tmp_path, "field_values")}
    assert values == {subject: subject for subject in wanted}


def test_what_a_removed_job_has_left_counts_though_its_id_is_used_again_meanwhile(
    store: Redis, redis_url: str, tmp_path: Path
) -> None:
    for number in range(3):
        left = {"name": "send", "opts": "{}", "data": str(number)}
        store.xadd(STREAM, {"event": "kept", "jobId": str(number), **left})
        store.xadd(STREAM, {"event": "completed", "jobId": str(number), "returnvalue": "1"})
    # The event of this one is in another range, or in the piece of another task.
    store.hset("bull:mail:1", mapping={"name": "other", "opts": "{}", "data": '"another job"'})
    Batches(str(tmp_path), EventOptions(url=redis_url), PayloadSettings()).store()
    found = sorted(stored(tmp_path), key=lambda row: row["job_id"])
    assert [(row["name"], row["data"], row["result"]) for row in found] == [
        ("send", "0", "1"),
        ("send", "1", "1"),
        ("send", "2", "1"),
    ]


def test_an_id_that_is_used_again_has_a_row_for_each_job(
    store: Redis, redis_url: str, tmp_path: Path
) -> None:
    job = {"name": "send", "opts": "{}"}
    store.xadd(STREAM, {"event": "added", "jobId": "a", "name": "send"}, id="1-1")
    store.xadd(STREAM, {"event": "kept", "jobId": "a", **job, "data": "1"}, id="2-1")
    store.xadd(STREAM, {"event": "completed", "jobId": "a", "returnvalue": "10"}, id="3-1")
    store.xadd(STREAM, {"event": "added", "jobId": "a", "name": "send"}, id="4-1")
    store.xadd(STREAM, {"event": "completed", "jobId": "a", "returnvalue": "20"}, id="5-1")
    store.xadd(STREAM, {"jobId": "a", "name": "third", "event": "added"}, id="6-1")
    store.hset("bull:mail:a", mapping={**job, "data": "3"})
    Batches(str(tmp_path), EventOptions(url=redis_url), PayloadSettings()).store()
    found = sorted(stored(tmp_path), key=lambda row: row["read_at"])
    shown = [(row["data"], row["result"], row["ended"], row["left_out"]) for row in found]
    assert shown == [("1", "10", True, None), (None, "20", True, GONE), ("3", None, False, None)]
    assert [row["read_at"].microsecond for row in found] == [3000, 5000, 6000]
