"""Tables of older versions are read, refused with a true sentence, and built again."""

import datetime as dt
import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.pipeline.events_of_all import told_by_all
from tests.pipeline.rounds import history_at, keep, refresh, rows_of
from tests.pipeline.saved import save
from waystation.core.errors import WrongSchema
from waystation.pipeline import tables
from waystation.pipeline.ask.engine import Engine
from waystation.pipeline.maintenance.rebuild import rebuild
from waystation.pipeline.products import product_tables
from waystation.pipeline.products.cron_slots import CRON_SLOTS
from waystation.pipeline.products.files import ADDED_FILES, FILE_DAYS, FILES
from waystation.pipeline.products.waitingroom import FAIRNESS, VISITS
from waystation.pipeline.refresh import gold_tables
from waystation.pipeline.refresh.fold import fold
from waystation.pipeline.silver.moves import STEPS
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import pa
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.tables import EVENTS, HOURLY, Column, every

RECORDED = Path(__file__).parent / "schemas.json"
"""The columns of every table, by version; a new version is added when a column changes."""

OLD_HOURLY = msgspec.structs.replace(
    HOURLY,
    columns=(
        *(each for each in HOURLY.columns if not each.name.endswith("_histogram")),
        Column("wait_sketch", tables.BYTES, "as version 1 wrote it"),
        Column("run_sketch", tables.BYTES, "as version 1 wrote it"),
    ),
)


def now() -> dict[str, dict[str, str]]:
    """The tables as they are declared."""
    return {
        table.name: {column.name: column.type for column in table.columns}
        for table in (*every(), STEPS, *product_tables())
    }


def test_every_change_of_a_column_is_a_new_version_and_drops_none_in_silence() -> None:
    recorded = json.loads(RECORDED.read_text())
    assert recorded[str(tables.VERSION)] == now(), "raise tables.VERSION and record the columns"
    for version, before in recorded.items():
        for name, columns in before.items():
            gone = columns.keys() - now()[name].keys()
            assert gone <= tables.RETIRED.get(name, frozenset()), (version, name)


def test_a_history_of_an_older_version_is_read_refused_with_the_truth_and_built_again(
    root: str,
) -> None:
    history = history_at(root)
    events = pa.Table.from_pylist(told_by_all(), schema=schema_of(EVENTS.schema))
    save(events, root, EVENTS, BatchId("bronze-test", 0))
    hour: dict[str, Any] = {"line": "bullmq", "queue": "mail", "wait_sketch": b"old"}
    hour["hour"] = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    old = pa.Table.from_pylist([hour], schema=schema_of(OLD_HOURLY.schema))
    save(old, root, OLD_HOURLY, BatchId("gold", 0))

    with Engine(root, threads=1) as engine:
        engine.add_tables()
        found = engine.ask("select queue, wait_sketch, wait_histogram from hourly").rows
    assert found == [("mail", b"old", None)]

    fold(history)
    wanted = r"hourly has the column run_sketch, wait_sketch, which an older version .*rebuild"
    with pytest.raises(WrongSchema, match=wanted):
        gold_tables.refresh(history)
    assert delta.read_arrow(root, OLD_HOURLY, ("wait_sketch",))["wait_sketch"].to_pylist() == [
        b"old"
    ]

    rebuild(history)
    assert delta.read_arrow(root, HOURLY, ("wait_histogram",)).num_rows > 1
    assert (
        "wait_sketch" not in delta.open_table(HOURLY.path(root), HOURLY.schema).schema().to_json()
    )


def test_tables_of_older_versions_are_brought_up_to_date_by_the_next_round(root: str) -> None:
    history = history_at(root)
    told = sorted(told_by_all(), key=lambda each: each["told_at"])
    keep(root, told[: len(told) // 2], 0)
    refresh(history)
    # One that a version before had not, and one that lacked a column.
    for table in (ADDED_FILES, FILE_DAYS):
        shutil.rmtree(table.path(root))
    names = [name for name in FAIRNESS.names if name != "seq_most"]
    lacking = delta.read_arrow(root, FAIRNESS, names)
    save(lacking, root, FAIRNESS, BatchId("gold-test", 0), replace=True)
    keep(root, told[len(told) // 2 :], 1)
    refresh(history)
    found = {table.name: rows_of(root, table) for table in COMPARED}
    assert all(found.values())
    rebuild(history)
    assert found == {table.name: rows_of(root, table) for table in COMPARED}


COMPARED = (VISITS, CRON_SLOTS, ADDED_FILES, FILE_DAYS, FILES, FAIRNESS)


def test_a_table_without_days_is_refused_until_it_is_built_again(root: str) -> None:
    columns = tuple(each for each in VISITS.columns if each.name != "date")
    old = msgspec.structs.replace(VISITS, columns=columns, partitions=())
    row = {"queue": "sale", "visitor": "v0"}
    save(pa.Table.from_pylist([row], schema=schema_of(old.schema)), root, old, BatchId("gold", 0))
    keep(root, [each for each in told_by_all() if each["line"] == "waitingroom"], 0)
    with pytest.raises(WrongSchema, match=r"visits has no days: an older version .*rebuild"):
        refresh(history_at(root))
