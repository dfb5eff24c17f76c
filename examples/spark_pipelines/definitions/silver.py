"""Silver: attempts and items, from the events that `waystation pipeline run` has stored."""

import os

from deltalake import DeltaTable
from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from waystation.pipeline.silver import attempts as attempts_of
from waystation.pipeline.silver import items as items_of
from waystation.pipeline.silver.steps import steps as steps_of
from waystation.pipeline.silver.steps import with_lives
from waystation.pipeline.tables import EVENTS

spark = SparkSession.active()


@dp.temporary_view
def steps() -> DataFrame:
    """The events that change the state of a job or a file."""
    bronze = DeltaTable(EVENTS.path(os.environ["WAYSTATION_PIPELINE__HISTORY"]))
    events = spark.read.schema(EVENTS.schema).option("basePath", bronze.table_uri)
    return steps_of(events.parquet(*bronze.file_uris()))


@dp.temporary_view
def all_attempts() -> DataFrame:
    """Attempts, with what items are computed from."""
    return attempts_of.attempts(with_lives(spark.table("steps")))


@dp.materialized_view
def attempts() -> DataFrame:
    """One row for each time a worker claimed a job or file."""
    return attempts_of.rows(spark.table("all_attempts"))


@dp.materialized_view
def items() -> DataFrame:
    """One row for each job or file, open ones included."""
    lives = with_lives(spark.table("steps"))
    return items_of.rows(items_of.items(lives, spark.table("all_attempts")))
