"""Questions that DuckDB answers over the tables of a history."""

import datetime as dt
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import ArrayType, PrimitiveType
from pyspark.sql import SparkSession
from redis import Redis

from tests.pipeline import stories
from tests.pipeline.rounds import history_at
from tests.pipeline.saved import save
from waystation.core.errors import InvalidInput
from waystation.pipeline.ask.engine import Engine
from waystation.pipeline.ask.live import live_jobs, states_of
from waystation.pipeline.history import History
from waystation.pipeline.products import product_tables
from waystation.pipeline.refresh import fold
from waystation.pipeline.sources.store import Store
from waystation.pipeline.storage.arrow import pa
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.tables import DAY, EVENTS, ITEMS, TEXT, Column, Layer, Table


@pytest.fixture(scope="module")
def filled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> History:
    """A history of jobs with every fate, some of them open, that nobody changes."""
    history = History(spark, str(tmp_path_factory.mktemp("lake") / "history"))
    rows = stories.rows(stories.random_events(random.Random(11), 120))
    half = len(rows) // 2
    for batch, part in enumerate((rows[:half], rows[half:])):
        events = stories.frame(spark, part)
        save(events, history.root, EVENTS, BatchId("bronze-test", batch))
        fold.fold(history)
    return history_at(history.root)


@pytest.fixture
def engine(filled: History) -> Iterator[Engine]:
    with Engine(filled.root, threads=1) as engine:
        engine.add_tables()
        yield engine


@pytest.mark.parametrize("table", ["items", "attempts"])
def test_open_work_is_what_spark_makes_of_it(filled: History, engine: Engine, table: str) -> None:
    # Fingerprints of open work are left to Spark.
    names = [name for name in getattr(filled, table)().columns if name not in SPARKS]
    # `group` is a word of SQL, too.
    quoted = ", ".join(f'"{name}"' for name in names)
    ours = engine.ask(f"select {quoted} from {table}").rows
    theirs = getattr(filled, table)().select(*names).collect()
    assert len(ours) > 100
    assert sorted(map(_plain, ours)) == sorted(map(_plain, theirs))
    assert engine.ask(f"select 1 from {table} where ended_at is null").rows


SPARKS = ("fingerprint", "error_class")


def _plain(row: Any) -> str:
    return str([getattr(each, "timestamp", lambda each=each: each)() for each in row])


@pytest.mark.parametrize(
    "question",
    [
        "copy items to 'stolen.parquet'",
        "select 1; drop view items",
        "create table mine as select 1",
        "insert into events select * from events",
        "set memory_limit = '1GB'",
        "attach 'other.db'",
        "install httpfs",
        "load httpfs",
        "pragma database_list",
        "call pragma_version()",
        "select * from read_text('/etc/passwd')",
        "select * from read_csv('/etc/passwd')",
        "select * from read_parquet('/etc/passwd')",
        "select * from '/etc/passwd'",
        "select * from glob('/etc/*')",
        "select * from sniff_csv('/etc/passwd')",
        "select * from query('copy items to ''stolen.parquet''')",
        "select * from stolen",
        "from filled",
        "select getenv('HOME')",
        "export database 'stolen.parquet'",
        "",
        "select",
    ],
)
def test_a_question_can_only_read_the_tables(engine: Engine, question: str) -> None:
    stolen = [1, 2, 3]  # A variable that a question must not find.
    with pytest.raises(InvalidInput):
        engine.ask(question)
    assert engine.ask("select count(*) from items").rows[0][0] > 100
    assert not Path("stolen.parquet").exists()
    assert stolen


def test_a_table_that_nobody_knows_is_answered_with_those_there_are(engine: Engine) -> None:
    with pytest.raises(InvalidInput, match=r"nowhere.*There are attempts, .*items, ledger"):
        engine.ask("select nothing from nowhere")


def test_a_column_that_nobody_knows_is_answered_with_what_may_be_meant(tmp_path: Path) -> None:
    with Engine(str(tmp_path / "none"), threads=1) as engine:
        engine.add_tables()
        wanted = r"\"failed\" not found.* Perhaps .*; a text stands in single quotes, as 'failed'$"
        with pytest.raises(InvalidInput, match=wanted):
            engine.ask("select * from items where state = failed")
        with pytest.raises(InvalidInput, match=r"\"statte\".* Perhaps .*\bstate\b"):
            engine.ask("select statte from items")


def test_an_answer_says_whether_there_are_more_rows(tmp_path: Path) -> None:
    with Engine(str(tmp_path)) as engine:
        found = [engine.ask("select * from range(3)", most) for most in (2, 3, None)]
    assert [(len(each.rows), each.complete) for each in found] == [(2, False), (3, True), (3, True)]


def test_a_date_that_python_has_not_is_refused(tmp_path: Path) -> None:
    with Engine(str(tmp_path)) as engine, pytest.raises(InvalidInput, match="cast it to text"):
        engine.ask("select date '290000-01-01'")


def test_json_that_cannot_be_read_is_answered_with_a_way_around_it(tmp_path: Path) -> None:
    with Engine(str(tmp_path)) as engine, pytest.raises(InvalidInput, match=r"try\(data->>"):
        engine.ask("select '{no'->>'$.a'")


def test_a_history_that_does_not_exist_yet_has_empty_tables(tmp_path: Path) -> None:
    with Engine(str(tmp_path / "none")) as engine:
        engine.add_tables(product_tables())
        for name in engine.views:
            assert engine.ask(f"select * from {name}").rows == []
    assert list(tmp_path.iterdir()) == []


def test_columns_that_a_newer_version_has_added_are_null_in_older_files(
    spark: SparkSession, root: str
) -> None:
    rows = stories.rows(stories.random_events(random.Random(2), 5))
    history = history_at(root)
    save(stories.frame(spark, rows), root, EVENTS, BatchId("test", 0))
    fold.fold(history)
    path = ITEMS.path(root)
    text = PrimitiveType("string")
    added = [Field("colour", text), Field("sizes", ArrayType(text, contains_null=True))]
    DeltaTable(path).alter.add_columns(added)
    with Engine(root) as engine:
        engine.add_tables()
        found = engine.ask("select colour, sizes, job_id from ended_items").rows
        assert found
        assert {row[:2] for row in found} == {(None, None)}


def test_a_day_may_be_a_column_of_a_table_that_has_no_folders_for_days(root: str) -> None:
    day, columns = dt.date(2026, 3, 1), (Column("queue", TEXT, ""), Column("date", DAY, ""))
    dated = Table(name="dated", layer=Layer.GOLD, meaning="", key=("queue",), columns=columns)
    rows = pa.table({"queue": ["mail"], "date": [day]})
    save(rows, root, dated, BatchId("test", 1))
    with Engine(root, threads=1) as engine:
        engine.add_tables([dated], named={"dated"})
        assert engine.ask("select queue, date from dated").rows == [("mail", day)]


def test_files_of_a_table_that_were_replaced_are_not_read(filled: History, root: str) -> None:
    for batch in range(3):
        some = filled.read(ITEMS).limit(5)
        save(some, root, ITEMS, BatchId("test", batch), replace=True)
    with Engine(root) as engine:
        engine.add_tables()
        assert engine.ask("select count(*) as n from ended_items").rows == [(5,)]


def test_the_queues_are_asked_as_they_are_now(store: Redis, redis_url: str) -> None:
    store.xadd("bull:mail:events", {"event": "added", "jobId": "1"})
    store.rpush("bull:mail:wait", "1")
    store.zadd("bull:mail:failed", {"2": 5, "3": 6})
    store.hset("bull:mail:1", mapping={"name": "send", "data": '{"to":"ada"}', "priority": "x"})
    store.hset("bull:mail:2", mapping={"name": "send", "timestamp": "17", "failedReason": "no"})
    with Engine("/nowhere") as engine:
        engine.add_rows("jobs", live_jobs(Store(redis_url)))
        found = engine.ask("from jobs order by job_id")
    rows = [dict(zip(found.names, row, strict=True)) for row in found.rows]
    assert [(row["job_id"], row["state"]) for row in rows] == [
        ("1", "wait"),
        ("2", "failed"),
        ("3", "failed"),
    ]
    assert (rows[0]["data"], rows[0]["priority"]) == ('{"to":"ada"}', None)
    assert (rows[1]["added_ms"], rows[1]["reason"]) == (17, "no")
    assert rows[2]["_corrupt"] == "there is no such job"
    asked = [("mail", "1"), ("mail", "3"), ("mail", "4")]
    assert states_of(Store(redis_url), asked) == ["wait", "failed", ""]
