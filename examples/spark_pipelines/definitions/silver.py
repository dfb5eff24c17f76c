"""Silver: attempts and items, as `waystation pipeline run` has stored them, open ones included."""

import os
from functools import reduce

from deltalake import DeltaTable
from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from waystation.pipeline.silver.moves import OPEN_ATTEMPTS, OPEN_ITEMS
from waystation.pipeline.tables import ATTEMPTS, ITEMS, Table

spark = SparkSession.active()


def stored(*tables: Table) -> DataFrame:
    """The rows of tables with the same columns."""
    found: list[DataFrame] = []
    for table in tables:
        kept = DeltaTable(table.path(os.environ["WAYSTATION_PIPELINE__HISTORY"]))
        rows = spark.read.schema(table.schema).option("basePath", kept.table_uri)
        if files := kept.file_uris():
            found.append(rows.parquet(*files))
    return reduce(DataFrame.unionByName, found)


@dp.materialized_view
def attempts() -> DataFrame:
    """One row for each time a worker claimed a job or file."""
    return stored(ATTEMPTS, OPEN_ATTEMPTS)


@dp.materialized_view
def items() -> DataFrame:
    """One row for each job or file."""
    return stored(ITEMS, OPEN_ITEMS)
