"""The tables of a history as tables of Iceberg, read by name with pyiceberg and polars."""

import datetime as dt
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table as IcebergTable
from redis import Redis

from tests.pipeline.ask import lakes
from tests.pipeline.rounds import history_at
from tests.support.project import ROOT
from waystation.cli import root as cli
from waystation.core.errors import InvalidInput
from waystation.pipeline.ask import iceberg
from waystation.pipeline.ask.iceberg import write_catalog
from waystation.pipeline.gold.cells import CELLS
from waystation.pipeline.maintenance.compaction import tables_of
from waystation.pipeline.products import product_tables
from waystation.pipeline.runner import RunOptions, run
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.storage.arrow import pa
from waystation.pipeline.tables import FIELD_VALUES, HOURLY, ITEMS, PAYLOADS, Table

PAGE = (ROOT / "docs/how-to/read-the-history-with-other-tools.md").read_text()
PROGRAMS: list[str] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PLACE = ".waystation/history"
JOBS = [lakes.job(random.Random(number), number) for number in range(200)]
KEPT = (ITEMS, PAYLOADS, FIELD_VALUES)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a history where the settings expect it."""
    # Without a package of its own polars lets pyiceberg plan, and warns about that.
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    monkeypatch.chdir(tmp_path)
    lakes.keep(PLACE, JOBS)
    return tmp_path


def loaded(table: Table, place: str = PLACE) -> IcebergTable:
    with load_catalog("history", uri=f"sqlite:///{place}/iceberg/catalog.db") as catalog:
        return catalog.load_table(f"{table.layer}.{table.name}")


def rows(found: Any) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in found.to_pylist())


def listed(scan: Any) -> list[dict[str, Any]]:
    return scan.to_arrow().to_pylist()


def delta_rows(table: Table, place: str = PLACE) -> Counter[str]:
    return rows(pa.table(DeltaTable(table.path(place)).to_pyarrow_table()))


def require_equal() -> None:
    for table in KEPT:
        found = loaded(table)
        assert rows(found.scan().to_arrow()) == delta_rows(table)
        assert found.scan().count() == delta_rows(table).total()


def test_every_table_is_there_by_its_name_with_the_rows_of_its_delta_table(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.run(["pipeline", "iceberg"])
    assert not ended.value.code
    said = capsys.readouterr().out.splitlines()
    assert said[1:] == ["bronze.payloads", "bronze.field_values", "silver.items"]
    require_equal()
    items = loaded(ITEMS)
    assert items.properties["comment"] == ITEMS.meaning
    docs = {each.name: each.doc for each in items.schema().fields}
    assert docs == {column.name: column.meaning for column in ITEMS.columns}


@pytest.mark.slow
def test_every_table_that_a_run_writes_is_there(store: Redis, redis_url: str) -> None:
    for number in range(10):
        for event in ("added", "active", "failed" if number % 3 else "completed"):
            store.xadd("bull:mail:events", {"event": event, "jobId": str(number), "name": "send"})
    ran = history_at("ran")
    run(ran, RunOptions(events=EventOptions(url=redis_url)))
    names = write_catalog("ran", list(product_tables()))
    # What gold is added up from is nobody else's.
    tables = [table for table in tables_of("ran") if table is not CELLS]
    assert set(names) == {f"{table.layer}.{table.name}" for table in tables}
    for table in tables:
        assert rows(loaded(table, "ran").scan().to_arrow()) == delta_rows(table, "ran")
    assert delta_rows(HOURLY, "ran").total() == 1


def test_filters_find_what_a_search_through_all_rows_finds() -> None:
    write_catalog(PLACE)
    dice = random.Random(4)
    items = loaded(ITEMS)
    whole = listed(items.scan())
    for _ in range(12):
        at = lakes.START + dt.timedelta(microseconds=dice.randrange(4 * 86_400_000_000))
        exact: dt.datetime = dice.choice(whole)["added_at"]
        state = dice.choice(("completed", "failed", "removed"))
        later = [row for row in whole if row["date"] > at.date()]
        for where, wanted in {
            f"added_at >= '{at.isoformat()}'": [row for row in whole if row["added_at"] >= at],
            f"added_at = '{exact.isoformat()}'": [row for row in whole if row["added_at"] == exact],
            f"date = '{at.date()}'": [row for row in whole if row["date"] == at.date()],
            f"state = '{state}' and date > '{at.date()}'": [
                row for row in later if row["state"] == state
            ],
        }.items():
            found = listed(items.scan(row_filter=where))
            assert Counter(row["job_id"] for row in found) == Counter(
                row["job_id"] for row in wanted
            ), where


def test_only_files_of_the_days_asked_for_are_read() -> None:
    write_catalog(PLACE)
    items = loaded(ITEMS)
    day = lakes.START.date() + dt.timedelta(days=1)
    planned = list(items.scan(row_filter=f"date = '{day}'").plan_files())
    assert 0 < len(planned) < len(list(items.scan().plan_files()))
    assert all(f"date={day}" in task.file.file_path for task in planned)


def test_polars_and_pyiceberg_read_what_the_page_shows() -> None:
    write_catalog(PLACE)
    (program,) = [each for each in PROGRAMS if "load_catalog" in each]
    found: dict[str, Any] = {}
    exec(program, found)
    states = Counter(job["state"] for job in JOBS)
    assert found["failed"].num_rows == states["failed"]
    assert dict(found["states"].rows()) == states
    eager = pl.scan_iceberg(loaded(ITEMS)).filter(pl.col("queue") == "mail").collect()
    assert eager.height == sum(job["queue"] == "mail" for job in JOBS)
    assert set(eager["date"]) <= {job["added_at"].date() for job in JOBS}


def test_metadata_follows_new_rows_compaction_and_deletion() -> None:
    write_catalog(PLACE)
    first = loaded(ITEMS)
    lakes.keep(PLACE, [lakes.job(random.Random(7), 900)], batches=1, first=9)
    write_catalog(PLACE)
    require_equal()
    # A reader that has it open goes on with what it has.
    assert first.scan().count() == 200
    for table in KEPT:
        DeltaTable(table.path(PLACE)).optimize.compact()
    write_catalog(PLACE)
    require_equal()
    DeltaTable(ITEMS.path(PLACE)).delete("queue = 'pay'")
    write_catalog(PLACE)
    require_equal()
    assert {row["queue"] for row in listed(loaded(ITEMS).scan())} == {"mail"}


def test_nothing_is_written_while_the_tables_stay_as_they_are() -> None:
    write_catalog(PLACE)
    before = loaded(ITEMS).metadata_location
    write_catalog(PLACE)
    assert loaded(ITEMS).metadata_location == before


def test_old_metadata_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iceberg, "KEEP", dt.timedelta(0))
    for number in range(8):
        lakes.keep(
            PLACE, [lakes.job(random.Random(number), 900 + number)], batches=1, first=9 + number
        )
        DeltaTable(ITEMS.path(PLACE)).optimize.compact()
        write_catalog(PLACE)
    found = loaded(ITEMS)
    assert len(found.metadata.snapshots) == 1
    [now] = found.metadata.snapshots
    left = sorted(Path(PLACE, "iceberg/silver/items/metadata").iterdir())
    manifests = [each for each in left if re.fullmatch(r".*-m\d+\.avro", each.name)]
    assert len(manifests) == len(now.manifests(found.io))
    # The present one, and those that pyiceberg keeps to go back to.
    assert len([each for each in left if each.suffix == ".json"]) <= 6
    require_equal()


def test_a_column_that_a_new_version_brings_is_there() -> None:
    write_catalog(PLACE)
    DeltaTable(ITEMS.path(PLACE)).alter.add_columns([Field("fresh", PrimitiveType("string"))])
    write_catalog(PLACE)
    assert loaded(ITEMS).scan().to_arrow()["fresh"].null_count == len(JOBS)


def test_the_statistics_hold_no_text_of_a_job() -> None:
    write_catalog(PLACE)
    for table in KEPT:
        found = loaded(table)
        texts = {
            each.field_id for each in found.schema().fields if str(each.field_type) == "string"
        }
        files = [task.file for task in found.scan().plan_files()]
        assert any(file.lower_bounds for file in files)
        assert not [file for file in files if texts & {*file.lower_bounds, *file.upper_bounds}]


def test_a_history_that_is_not_there_or_elsewhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no history"):
        write_catalog(str(tmp_path / "nowhere"))
    with pytest.raises(InvalidInput, match="a directory only"):
        write_catalog("s3://lake/history")
