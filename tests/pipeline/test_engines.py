"""The rules of silver and gold give the same tables with Spark, without it, and with both."""

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.pipeline import stories
from tests.pipeline.events_of_all import told_by_all
from tests.pipeline.rounds import rows_of
from waystation.pipeline.history import History
from waystation.pipeline.products import product_tables
from waystation.pipeline.refresh import gold_tables, quality
from waystation.pipeline.refresh.fold import fold
from waystation.pipeline.silver.moves import STEPS
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import pa
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.tables import EVENTS, Layer, Table, every

WITHOUT, WITH = 10**9, 0
"""Rows from which on Spark is used: never, and always."""


def refreshed(spark: SparkSession, root: str, batches: list[Any], *spark_from: int) -> None:
    """A history that some batches made, each folded in its own way, the last one refreshed."""
    history = History(spark, root)
    for number, (rows, since) in enumerate(zip(batches, spark_from, strict=True)):
        events = pa.Table.from_pylist(rows, schema=schema_of(EVENTS.schema))
        delta.save(events, root, EVENTS, BatchId("bronze-test", number))
        history = History(spark, root, spark_from=since)
        fold(history)
    gold_tables.refresh(history.fresh())


def assert_same_tables(
    spark: SparkSession, told: list[dict[str, Any]], tables: list[Table], roots: list[str]
) -> None:
    """Fold and refresh the same events with Spark, without it, and with both, and compare."""
    told = sorted(told, key=lambda row: row["told_at"])
    half = len(told) // 2
    ways = ((WITH, WITH), (WITHOUT, WITHOUT), (WITH, WITHOUT))
    for root, way in zip(roots, ways, strict=True):
        refreshed(spark, root, [told[:half], told[half:]], *way)
    with_spark, *others = roots
    for table in tables:
        wanted = rows_of(with_spark, table)
        assert wanted or table.layer is Layer.BRONZE, table.name
        for other in others:
            assert rows_of(other, table) == wanted, table.name
    failed = [check for check in quality.last_checks(with_spark) if not check.passed]
    assert failed == []


def test_both_engines_and_a_mix_of_them_give_the_same_tables(
    spark: SparkSession, tmp_path: Path
) -> None:
    told = stories.rows(stories.told_about(random.Random(41), 80))
    roots = [str(tmp_path / name) for name in ("spark", "here", "mixed")]
    assert_same_tables(spark, told, [*every(), STEPS], roots)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_both_engines_give_the_same_tables_of_every_product(
    spark: SparkSession, tmp_path: Path
) -> None:
    told = stories.rows(stories.told_about(random.Random(42), 160)) + told_by_all()
    roots = [str(tmp_path / name) for name in ("spark", "here", "mixed")]
    assert_same_tables(spark, told, [*every(), STEPS, *product_tables()], roots)
