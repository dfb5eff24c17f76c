"""Questions about a history in an object store have the answers of the same one on a disk."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.pipeline.ask import lakes
from tests.pipeline.object_store import PLACE, object_store
from waystation.cli import root as cli
from waystation.console.past.history import History
from waystation.console.query import Query
from waystation.core.errors import HistoryError, InvalidInput
from waystation.pipeline.ask import active_files
from waystation.pipeline.ask.active_files import RowFilter, contents, remote_files
from waystation.pipeline.ask.engine import Engine
from waystation.pipeline.ask.selection import Selection, jobs_sql, prepare
from waystation.pipeline.deploys import Deploy, deploys, mark
from waystation.pipeline.storage.arrow import pa
from waystation.pipeline.tables import ITEMS, PAYLOADS

JOBS = 40


@pytest.fixture(scope="module")
def jobs() -> list[dict[str, Any]]:
    dice = random.Random(5)
    return [lakes.job(dice, number) for number in range(JOBS)]


@pytest.fixture(scope="module")
def disk(jobs: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> str:
    place = str(tmp_path_factory.mktemp("lake") / "history")
    lakes.keep(place, jobs, batches=1)
    return place


@pytest.fixture(scope="module")
def bucket(jobs: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The same history in an object store, half of it compacted."""
    with (
        pytest.MonkeyPatch.context() as patch,
        object_store(tmp_path_factory.mktemp("store")) as variables,
    ):
        for name, value in variables.items():
            patch.setenv(name, value)
        lakes.keep(PLACE, jobs[: JOBS // 2], batches=1)
        for table in (ITEMS, PAYLOADS):
            DeltaTable(table.path(PLACE)).optimize.compact()
        lakes.keep(PLACE, jobs[JOBS // 2 :], batches=1, first=1)
        yield PLACE


SELECTIONS = [
    Selection(queue="pay", state="failed", error="error"),
    Selection(fields={"tenant": "it's"}, paths={"$.vip": "false"}),
    Selection(
        since=lakes.START + lakes.DAY,
        until=lakes.START + 3 * lakes.DAY,
        where="tenant = 'acme' and attempts = 1",
    ),
]


@pytest.mark.parametrize("selection", SELECTIONS, ids=range(len(SELECTIONS)))
def test_jobs_are_found_as_on_a_disk(bucket: str, disk: str, selection: Selection) -> None:
    assert found(bucket, selection) == found(disk, selection) != []


def test_a_job_is_found_by_its_id(bucket: str, disk: str, jobs: list[dict[str, Any]]) -> None:
    for job in random.Random(3).sample(jobs, 2):
        selection = Selection(ids=[job["job_id"]])
        assert found(bucket, selection) == found(disk, selection) != []


def found(root: str, selection: Selection) -> list[dict[str, Any]]:
    with Engine(root, threads=1) as engine:
        prepare(engine, selection)
        answer = engine.ask(jobs_sql(selection, ["tenant"]))
    rows = [dict(zip(answer.names, row, strict=True)) for row in answer.rows]
    return sorted(rows, key=lambda row: (row["queue"], row["job_id"]))


QUERIES = [
    "select state, count(*) as n from items group by 1 order by 1",
    "select count(*) from items where queue = 'mail' and date >= date '2026-03-03'",
    "select job_id, fields['tenant'], data from payloads where ended and name like 's%' order by 1",
    "select count(*), min(ended_at) from items join payloads using (product, queue, job_id)",
    "select count(*) from attempts",
]


def test_sql_has_the_same_answers(bucket: str, disk: str) -> None:
    with Engine(bucket, threads=1) as far, Engine(disk, threads=1) as near:
        for each in (far, near):
            each.add_tables(named={"items", "payloads", "attempts"})
        for query in QUERIES:
            assert far.ask(query) == near.ask(query), query


@pytest.mark.parametrize("place", ["bucket", "disk"])
def test_every_table_is_opened_once(
    place: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    class Counted(DeltaTable):
        def __init__(self, path: str) -> None:
            opened.append(path)
            super().__init__(path)

    monkeypatch.setattr(active_files, "DeltaTable", Counted)
    found(request.getfixturevalue(place), Selection(ids=["3"]))
    assert opened
    assert len(opened) == len(set(opened))


def test_files_that_cannot_hold_the_id_are_not_opened(bucket: str) -> None:
    with Engine(bucket) as engine:
        prepare(engine, Selection(ids=["~beyond every id"]))
        assert engine.files == []


def test_of_a_file_only_the_groups_of_rows_that_can_hold_the_id_are_read(tmp_path: Path) -> None:
    rows = pa.table({"job_id": [f"{number:04}" for number in range(100)], "n": range(100)})
    lakes.write_in_groups(str(tmp_path), rows, 10)
    held = contents(str(tmp_path))
    assert held is not None
    some = remote_files(held.table, held.files, RowFilter({"job_id": ["0042", "0077"]}))
    assert some.to_table(columns=["n"])["n"].to_pylist() == [*range(40, 50), *range(70, 80)]
    none = remote_files(held.table, held.files, RowFilter({"job_id": ["x"]}))
    assert none.count_rows() == 0


def test_a_question_can_only_read_the_tables(bucket: str) -> None:
    with Engine(bucket) as engine:
        engine.add_tables(named={"items"})
        for question in (
            "select * from read_text('/etc/passwd')",
            "select * from read_parquet('s3://lake/history/silver/items/*')",
            "select * from 's3://lake/history/silver/items/*.parquet'",
        ):
            with pytest.raises(InvalidInput):
                engine.ask(question)


def test_the_commands_ask_an_object_store(
    bucket: str,
    redis_url: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WAYSTATION_STORE__URL", redis_url)

    def said(*words: str) -> str:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            # As a settings file has it, which shortens paths.
            cli.run(["pipeline", *words, "--history", bucket.replace("s3://", "s3:/")])
        assert not ended.value.code
        return capsys.readouterr().out

    assert '"job_id":"3"' in said("find", "3", "--no-live", "--json")
    assert said("sql", "select count(*) as jobs from items", "--json") == f'{{"jobs":{JOBS}}}\n'
    assert "the history is empty" in said("status")


def test_deploys_are_marked_in_an_object_store(bucket: str) -> None:
    marked = Deploy(name="v42", deployed_at=lakes.START)
    mark(bucket, marked)
    assert deploys(bucket) == [marked]


async def test_the_console_searches_an_object_store(bucket: str) -> None:
    history = History(bucket.replace("s3://", "s3:/"))
    assert history.is_there
    answer = await history.search(Query(fields=(("id", "3"),)), 5)
    assert answer is not None
    assert [each.id for each in answer[0]] == ["3"]


@pytest.mark.usefixtures("bucket")
def test_an_object_store_that_refuses_is_named() -> None:
    with (
        pytest.raises(HistoryError, match=r"history at s3://nowhere/history/\S+ cannot be read"),
        Engine("s3://nowhere/history") as engine,
    ):
        engine.add_tables(named={"items"})
