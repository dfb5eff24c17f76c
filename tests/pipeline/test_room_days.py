"""Who left and who was overtaken, round after round, are those that all events at once give."""

import datetime as dt
import random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.events_of_all import told_by_all
from tests.pipeline.stories import START
from tests.pipeline.test_engines import rows_of
from tests.pipeline.test_rounds import in_parts, keep, no_spark, refresh
from waystation.pipeline.history import History
from waystation.pipeline.maintenance.rebuild import rebuild, refresh_all
from waystation.pipeline.products.waitingroom import (
    ABANDONMENT,
    ABANDONMENT_DAYS,
    ETA_CALIBRATION,
    FAIRNESS,
    VISITS,
)
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.tables import Table

TABLES = (ABANDONMENT_DAYS, ABANDONMENT, ETA_CALIBRATION, FAIRNESS)


def tables_at(root: str) -> dict[str, list[Any]]:
    return {table.name: rows_of(root, table) for table in TABLES}


def visitors(dice: random.Random, *, late: float = 0.05) -> list[dict[str, Any]]:
    """Events of visitors over five days, of which a share happened long before it was told."""
    rows = [row for row in told_by_all(dice.randrange(1_000)) if row["line"] == "waitingroom"]
    for row in rows:
        row["told_at"] = START + (row["told_at"] - START) * 2_000
        row["at"], row["date"] = row["told_at"], row["told_at"].date()
        if dice.random() < late:
            row["at"] -= dt.timedelta(hours=dice.randrange(1, 90))
    return sorted(rows, key=lambda row: (row["told_at"], row["seq"]))


@pytest.mark.parametrize("seed", range(3))
def test_visitors_counted_round_after_round_are_those_of_all_events_at_once(
    root: str, seed: int
) -> None:
    dice = random.Random(seed)
    history = History(no_spark, root)
    for batch, rows in enumerate(in_parts(dice, visitors(dice), 4)):
        keep(root, rows, batch)
        refresh(history)
    found = tables_at(root)
    assert all(found.values())
    assert sum(delta.read_arrow(root, FAIRNESS, ("overtaken",))["overtaken"].to_pylist()) > 0
    refresh_all(history)
    assert found == tables_at(root)
    rebuild(history)
    assert found == tables_at(root)


@pytest.mark.long
def test_both_engines_count_the_same_visitors(spark: SparkSession, root: str) -> None:
    dice = random.Random(12)
    for batch, rows in enumerate(in_parts(dice, visitors(dice), 2)):
        keep(root, rows, batch)
        refresh(History(spark, root, spark_from=0))
    found = tables_at(root)
    rebuild(History(no_spark, root))
    assert found == tables_at(root)


def test_fairness_reads_the_admissions_since_the_first_hour_that_has_changed(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = visitors(random.Random(4), late=0)
    history = History(no_spark, root)
    days = sorted({row["date"] for row in rows})
    keep(root, [row for row in rows if row["date"] < days[-3]], 0)
    refresh(history)
    keep(root, [row for row in rows if row["date"] >= days[-3]], 1)
    read_files, seen = delta.read_files, set[str]()

    def noting(path: str, table: Table, names: list[str], **more: Any) -> Any:
        # The order of admissions is only read for this.
        if table is VISITS and "call_order" in (more.get("columns") or ()):
            seen.update(name.partition("/")[0] for name in names)
        return read_files(path, table, names, **more)

    monkeypatch.setattr(delta, "read_files", noting)
    refresh(history)
    # By the days on which the visitors joined.
    assert seen
    assert f"date={days[0]}" not in seen


def test_fairness_of_an_older_version_is_computed_again(root: str) -> None:
    dice = random.Random(9)
    first, second = in_parts(dice, visitors(dice), 2)
    history = History(no_spark, root)
    keep(root, first, 0)
    refresh(history)
    names = [name for name in FAIRNESS.names if name != "seq_most"]
    old = delta.read_arrow(root, FAIRNESS, names)
    delta.save(old, root, FAIRNESS, BatchId("gold-test", 0), replace=True)
    keep(root, second, 1)
    refresh(history)
    found = tables_at(root)
    rebuild(history)
    assert found == tables_at(root)
