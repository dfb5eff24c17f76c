"""Tables of gold that are counted from rows of silver alone."""

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from waystation.pipeline.gold import sums
from waystation.pipeline.gold.cells import Changed
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.tables import Table

Rows = list[dict[str, Any]]


def summed(spark: SparkSession, root: str, **silver: DataFrame) -> Callable[[Table], Rows]:
    """The rows of any table, counted from all rows of some tables of silver."""
    signed: dict[str, Any] = {
        name: rows.withColumn("sign", F.lit(1)) for name, rows in silver.items()
    }
    changed = Changed(batch=BatchId("silver", 0), **signed)
    sums.count_all(spark, root, changed, target_ms=1_000)
    return lambda table: delta.read_arrow(root, table, table.names).to_pylist()
