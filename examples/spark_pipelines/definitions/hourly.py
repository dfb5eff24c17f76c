"""Gold: counts, waits and run times of each queue by the hour."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from waystation.pipeline.gold.hourly import hourly as hourly_of

spark = SparkSession.active()


@dp.materialized_view
def hourly() -> DataFrame:
    """One row for each queue and hour."""
    return hourly_of(spark.table("steps"), spark.table("attempts"))
