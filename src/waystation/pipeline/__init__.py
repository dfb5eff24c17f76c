"""Everything that happened, on Spark: events to history to statistics and back to the queues."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession") -> None:
    """Make `waystation.events`, `waystation.jobs` and the tables' sinks known to a session."""
    # Whoever only looks for Java must not need Spark.
    import_module("waystation.pipeline.spark.session").register(spark)
