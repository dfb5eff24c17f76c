"""Programs of others that read the history, as the page about them shows it."""

import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.pipeline.ask import lakes
from tests.support.project import ROOT
from waystation.cli import root as cli
from waystation.core.errors import InvalidInput
from waystation.pipeline.ask.engine import write_database
from waystation.pipeline.products import product_tables
from waystation.pipeline.silver.moves import STEPS
from waystation.pipeline.tables import every

PAGE = (ROOT / "docs/how-to/read-the-history-with-other-tools.md").read_text()
PROGRAMS: list[str] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PLACE = ".waystation/history"
JOBS = [lakes.job(random.Random(number), number) for number in range(200)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a history where the settings expect it."""
    monkeypatch.chdir(tmp_path)
    lakes.keep(PLACE, JOBS)
    return tmp_path


def ran(word: str, **given: Any) -> dict[str, Any]:
    """What the program with a word in it has left in its variables."""
    (program,) = [each for each in PROGRAMS if word in each]
    exec(program, given)
    return given


def views(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.run(["pipeline", "views", *words])
    return int(ended.value.code or 0)


@pytest.mark.usefixtures("home")
def test_duckdb_opens_a_database_with_a_view_for_each_table(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert views("history.duckdb") == 0
    assert "views in history.duckdb: abandonment, abandonment_days, " in capsys.readouterr().out
    counts = Counter((job["queue"], job["state"]) for job in JOBS)
    assert ran("duckdb")["states"] == sorted((*key, many) for key, many in counts.items())
    with duckdb.connect("history.duckdb", read_only=True) as history:
        comments = dict(history.sql("select view_name, comment from duckdb_views()").fetchall())
        columns = history.sql(
            "select column_name, comment from duckdb_columns() where table_name = 'visits'"
        ).fetchall()
        there = history.sql("select count(*) from as_of(now())").fetchall()
    tables = [*every(), STEPS, *product_tables()]
    assert {table.name: comments[table.name] for table in tables} == {
        table.name: table.meaning for table in tables
    }
    (visits,) = [table for table in tables if table.name == "visits"]
    assert dict(columns) == {each.name: each.meaning for each in visits.columns}
    assert there == [(0,)]


def test_the_database_is_replaced_and_a_reader_keeps_the_one_that_it_has(home: Path) -> None:
    question = "select count(*) from items"
    assert views("history.duckdb") == 0
    with duckdb.connect("history.duckdb", read_only=True) as before:
        lakes.keep(PLACE, [lakes.job(random.Random(7), 900)], batches=1, first=9)
        assert views("history.duckdb") == 0
        assert before.execute(question).fetchall() == [(200,)]
    with duckdb.connect("history.duckdb", read_only=True) as after:
        assert after.execute(question).fetchall() == [(201,)]
    assert sorted(each.name for each in home.iterdir()) == [".waystation", "history.duckdb"]


def test_nothing_but_such_a_database_is_replaced(home: Path) -> None:
    (home / "notes.txt").write_text("mine")
    with duckdb.connect("other.duckdb") as other:
        other.execute("create table mine as select 1 as n")
    for name in ("notes.txt", "other.duckdb", "nowhere/history.duckdb"):
        with pytest.raises(InvalidInput, match=r"something else|folder that exists"):
            write_database(PLACE, Path(name))
    assert (home / "notes.txt").read_text() == "mine"
    with duckdb.connect("other.duckdb") as other:
        assert other.execute("from mine").fetchall() == [(1,)]
    for place, sentence in {"s3://lake/h": "must be a directory", "none": "no history"}.items():
        with pytest.raises(InvalidInput, match=sentence):
            write_database(place, home / "history.duckdb")


@pytest.mark.usefixtures("home")
def test_polars_scans_a_table() -> None:
    wanted = Counter((job["queue"], job["name"]) for job in JOBS if job["state"] == "completed")
    rows = ran("scan_delta")["done"].rows(named=True)
    assert {(row["queue"], row["name"]): row["jobs"] for row in rows} == wanted


@pytest.mark.usefixtures("home")
def test_polars_reads_every_column_of_every_table() -> None:
    import polars as pl

    for table in ("silver/items", "bronze/payloads", "bronze/field_values"):
        rows = pl.read_delta(f"{PLACE}/{table}")
        assert len(rows) > 0
        assert "date" in rows.columns
    payloads = pl.read_delta(f"{PLACE}/bronze/payloads")
    tenants = {dict(fields).get("tenant") for fields in payloads["fields"].drop_nulls()}
    assert tenants == {"acme", "it's", "Ünï", "zeta", None}


@pytest.mark.usefixtures("home")
def test_arrow_reads_a_table_with_filters() -> None:
    failed = sorted(job["job_id"] for job in JOBS if job["state"] == "failed")
    assert sorted(ran("to_pyarrow_table")["failed"]["job_id"].to_pylist()) == failed
