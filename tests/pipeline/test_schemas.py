"""Tables of older versions are refused with a true sentence, taken over, and filled."""

import importlib
import json
import pkgutil
import random
import shutil
from itertools import chain
from pathlib import Path

import pytest
from deltalake import write_deltalake
from redis import Redis

from tests.pipeline.batches import run_round
from tests.pipeline.events_of_all import events_of_files
from tests.pipeline.rounds import history_at, keep, refresh, rows_of
from waystation import pipeline
from waystation.core.errors import WrongSchema
from waystation.pipeline import tables
from waystation.pipeline.ask.engine import Engine
from waystation.pipeline.gold import cells, sums
from waystation.pipeline.gold.derived import DERIVED
from waystation.pipeline.maintenance.compaction import tables_of
from waystation.pipeline.maintenance.rebuild import rebuild
from waystation.pipeline.payloads.rules import PayloadSettings
from waystation.pipeline.products import product_tables
from waystation.pipeline.products.files import ADDED_FILES, FILE_DAYS, FILES
from waystation.pipeline.runner import RunOptions, run
from waystation.pipeline.silver.moves import STEPS
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.storage import delta
from waystation.pipeline.tables import HOURLY, Layer, Table, every

RECORDED = Path(__file__).parent / "schemas.json"
"""The columns of every table, by version since 8; one is added when a column changes."""


def now() -> dict[str, dict[str, str]]:
    """The tables as they are declared."""
    return {
        table.name: {column.name: column.type for column in table.columns}
        for table in (*every(), STEPS, *product_tables())
    }


def test_every_change_of_a_column_is_a_new_version_and_drops_none_in_silence() -> None:
    recorded = json.loads(RECORDED.read_text())
    assert recorded.get(str(tables.VERSION)) == now(), "raise tables.VERSION and record the columns"
    for version, before in recorded.items():
        for name, columns in before.items():
            here = now()["open_steps" if name == "open" else name]
            gone = columns.keys() - here.keys()
            assert {tables.RENAMED.get(column) for column in gone} <= here.keys(), (version, name)


def declared() -> set[str]:
    """Names of the tables of gold that some module of the pipeline declares."""
    places = pkgutil.walk_packages(pipeline.__path__, f"{pipeline.__name__}.")
    modules = [importlib.import_module(place.name) for place in places]
    found = [each for module in modules for each in vars(module).values()]
    return {each.name for each in found if isinstance(each, Table) and each.layer is Layer.GOLD}


def test_every_table_of_gold_is_listed_so_that_it_is_documented_asked_and_compacted() -> None:
    listed = {each.name for each in (*every(), *product_tables()) if each.layer is Layer.GOLD}
    assert declared() == listed, "list it in tables.py, or in the facts of its product"


def test_every_table_by_sums_is_derived_from_cells() -> None:
    no_sums = declared() - {each.table.name for each in DERIVED}
    assert no_sums == {"cron_slots", "eta_calibration", "fairness", "ledger", "quality"}


def age(root: str) -> None:
    """Give the columns of all tables the names that they had up to version 8."""
    before = {new: old for old, new in tables.RENAMED.items()}
    for table in tables_of(root):
        rows = delta.read_arrow(root, table, table.names)
        write_deltalake(
            table.path(root),
            rows.rename_columns([before.get(name, name) for name in table.names]),
            mode="overwrite",
            schema_mode="overwrite",
            partition_by=list(table.partitions) or None,
        )


@pytest.mark.slow
def test_a_history_with_other_names_is_refused_and_taken_over_with_everything_in_it(
    root: str, store: Redis, redis_url: str
) -> None:
    history = history_at(root)
    options = RunOptions(
        events=EventOptions(url=redis_url),
        payloads=PayloadSettings(fields={"tenant": "$.tenant"}),
        write_back=False,
    )
    for job in range(4):
        store.hset(f"bull:mail:{job}", mapping={"name": "a", "data": '{"tenant": "acme"}'})
        for event in ("added", "waiting", "active", "completed")[: job + 1]:
            store.xadd("bull:mail:events", {"event": event, "jobId": job})
    # One of them is nowhere any more, which only a snapshot can tell.
    store.lpush("bull:mail:wait", "0")
    store.lpush("bull:mail:active", "2")
    store.delete("bull:mail:1")
    store.xtrim("bull:mail:events", maxlen=9, approximate=False)
    # The second one folds what the first one has found missing.
    for _ in range(2):
        run_round(history, options)
    wanted = {table.name: rows_of(root, table) for table in tables_of(root)}
    kept = ("events", "gaps", "payloads", "field_values", "ledger", "items")
    assert all(wanted[name] for name in kept), wanted
    age(root)

    refused = r"has the column line, .*is called product, .*rebuild` takes the history over"
    with Engine(root, threads=1) as engine, pytest.raises(WrongSchema, match=refused):
        engine.add_tables()
    with pytest.raises(WrongSchema, match=refused):
        run(history, options)

    rebuild(history)
    found = {table.name: rows_of(root, table) for table in tables_of(root)}
    assert {name for name in wanted if found.get(name) != wanted[name]} <= {"quality", "slots"}
    again = run_round(history, options)
    assert (again.events, again.failed_checks) == (0, ())


@pytest.mark.slow
def test_tables_that_older_versions_had_not_are_filled_by_the_next_round(root: str) -> None:
    history = history_at(root)
    events = events_of_files(random.Random(3), 60)
    keep(root, events[: len(events) // 2], 0)
    refresh(history)
    for table in (ADDED_FILES, FILE_DAYS):
        shutil.rmtree(table.path(root))
    keep(root, events[len(events) // 2 :], 1)
    refresh(history)
    found = {table.name: rows_of(root, table) for table in COMPARED}
    assert all(found.values())
    rebuild(history)
    assert found == {table.name: rows_of(root, table) for table in COMPARED}


COMPARED = (ADDED_FILES, FILE_DAYS, FILES)


@pytest.mark.slow
def test_sums_that_an_older_version_has_written_are_counted_anew_by_the_next_round(
    root: str,
) -> None:
    history = history_at(root)
    events = events_of_files(random.Random(3), 60)
    keep(root, events[: len(events) // 2], 0)
    refresh(history)
    rows = delta.read_arrow(root, cells.CELLS, cells.CELLS.names)
    write_deltalake(
        cells.CELLS.path(root),
        rows.drop_columns("parts").append_column("bucket", rows["n0"]),
        mode="overwrite",
        schema_mode="overwrite",
        partition_by=list(cells.CELLS.partitions),
    )
    keep(root, events[len(events) // 2 :], 1)
    refresh(history)
    compared = (*COMPARED, HOURLY, cells.CELLS)
    found = {table.name: rows_of(root, table) for table in compared}
    rebuild(history)
    assert found == {table.name: rows_of(root, table) for table in compared}


# pyright: reportPrivateUsage=false
def test_every_kind_whose_extremes_may_be_taken_back_can_be_counted_again() -> None:
    rows = [
        *(cells._OF_ATTEMPT, [cells._ARRIVAL], cells._OF_FAILED, cells._OF_PLACE),
        *(cells._OF_ROUTED, cells._OF_ROUTED_BY, cells._OF_FILE),
    ]
    found = {
        cells.KINDS[cell["kind"].strip("'")]
        for cell in chain.from_iterable(rows)
        if cell.keys() & {*cells.EXTREMES, "example"}
    }
    assert found == set(sums._COUNTED_FROM)


def test_a_cell_with_a_count_that_its_kind_has_not_is_refused() -> None:
    with pytest.raises(KeyError, match="worker has no count or column complete"):
        cells.WORKER.cell(complete="true")
