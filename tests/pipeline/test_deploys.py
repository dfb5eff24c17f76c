"""Deploys are marked in the history, and what began with one says so."""

import datetime as dt
import json
import random
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from tests.pipeline.ask import lakes
from tests.pipeline.saved import save
from tests.pipeline.test_report import FACTS, NOW
from waystation.cli import root as cli
from waystation.core.errors import InvalidInput
from waystation.pipeline.ask.engine import Engine
from waystation.pipeline.deploys import Deploy, deploys, last_before, mark, soon_before
from waystation.pipeline.history import History
from waystation.pipeline.reports.console import console_report
from waystation.pipeline.reports.facts import report
from waystation.pipeline.reports.page import html_report
from waystation.pipeline.storage.arrow import pa
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.tables import DEPLOYS

MINUTE = dt.timedelta(minutes=1)
V41 = Deploy(name="v41", deployed_at=NOW - dt.timedelta(days=3))
V42 = Deploy(name="v42", deployed_at=NOW - 3 * MINUTE, note="new <b>mail</b> provider")


def no_spark() -> SparkSession:
    raise AssertionError("so few rows need no Spark")


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A history that exists."""
    (tmp_path / "history").mkdir()
    return str(tmp_path / "history")


def called(*words: str, capsys: pytest.CaptureFixture[str], ends: int = 0) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        cli.run(list(words))
    out, err = capsys.readouterr()
    assert int(ended.value.code or 0) == ends, err
    return out + err


def test_marks_are_read_as_they_were_written_the_oldest_first(place: str) -> None:
    assert deploys(place) == []
    for each in (V42, V41):
        mark(place, each)
    assert deploys(place) == [V41, V42]
    assert report(History(no_spark, place)).deploys == (V41, V42)


def test_the_last_deploy_before_an_instant_is_found() -> None:
    marks = [V41, V42]
    assert last_before(NOW, marks) == V42
    assert last_before(V42.deployed_at, marks) == V42
    assert last_before(V42.deployed_at - MINUTE, marks) == V41
    assert last_before(V41.deployed_at - MINUTE, marks) is None
    assert last_before(None, marks) is None
    assert soon_before(V42.deployed_at - MINUTE, marks) is None
    assert soon_before(NOW, marks) == V42


def test_a_mark_is_written_to_a_table_that_the_pipeline_can_write_to(place: str) -> None:
    mark(place, V41)
    rows = pa.Table.from_pylist([msgspec.structs.asdict(V42)])
    save(rows, place, DEPLOYS, BatchId("test", 0))
    assert deploys(place) == [V41, V42]


@pytest.mark.parametrize("name", [" ", "two\nlines", "x" * 101])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="the name of a deploy must be"):
        Deploy(name=name, deployed_at=NOW)


def test_a_history_that_does_not_exist_gets_no_mark(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no history at"):
        mark(str(tmp_path / "none"), V42)
    assert list(tmp_path.iterdir()) == []


def test_the_report_says_which_failures_began_soon_after_a_deploy() -> None:
    marked = msgspec.structs.replace(FACTS, deploys=(V41, V42))
    said = "first seen 3 min after deploy v42"
    printed = StringIO()
    Console(file=printed, width=100).print(console_report(marked))
    assert said in printed.getvalue()
    assert said in html_report(marked)
    assert "first seen" not in html_report(FACTS)
    evil = msgspec.structs.replace(V42, name="<script>")
    assert "<script>" not in html_report(msgspec.structs.replace(FACTS, deploys=(evil,)))


def test_the_commands_mark_list_find_and_join(
    place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs: list[dict[str, Any]] = [lakes.job(random.Random(1), number) for number in range(3)]
    lakes.keep(place, jobs, batches=1)
    where = ("--history", place)

    def said(*words: str, ends: int = 0) -> str:
        return called(*words, *where, capsys=capsys, ends=ends)

    assert said("deploy-mark", "--json") == ""
    assert "deploy v42 marked at 2026-03-01 14:00:00 UTC" in said(
        "deploy-mark", "v42", "--at", "2026-03-01T14:00", "--note", "new provider"
    )
    said("deploy-mark", "v43")
    [newest, oldest] = map(json.loads, said("deploy-mark", "--json").splitlines())
    assert newest["name"] == "v43"
    assert oldest == {
        "name": "v42",
        "deployed_at": "2026-03-01T14:00:00Z",
        "note": "new provider",
    }
    assert "instant of the past" in said("deploy-mark", "v44", "--at", "2999-01-01", ends=2)
    assert "wanted the name of a deploy" in said("deploy-mark", "--note", "x", ends=2)
    assert len(deploys(place)) == 2

    found = json.loads(said("pipeline", "find", "0", "--no-live", "--json"))
    assert found["deploy"] is None, "it was never claimed"
    with Engine(place) as engine:
        engine.add_tables(named={"items", "deploys"})
        rows = engine.ask(
            "select i.job_id, d.name from items i asof left join deploys d "
            "on i.added_at >= d.deployed_at"
        ).rows
    assert {name for _, name in rows} == {"v42"}
