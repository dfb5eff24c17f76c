"""Counts of what Spark does, by which a round is judged."""

from pyspark.sql import SparkSession

from tests.pipeline.counting import counting


def test_queries_views_texts_jobs_and_tasks_of_a_block_are_counted(spark: SparkSession) -> None:
    spark.range(3).collect()
    with counting(spark) as counts:
        numbers = spark.range(0, 10, 1, 2)
        spark.sql("select count(*) as n from {numbers}", numbers=numbers).toArrow()
        numbers.collect()
    spark.range(3).collect()
    assert (counts.queries, counts.views, counts.texts, counts.to_arrow) == (2, 1, 1, 1)
    assert (counts.jobs, counts.stages, counts.tasks) == (2, 3, 5)
    assert "collect" in str(counts)


def test_a_block_that_only_plans_executes_nothing(spark: SparkSession) -> None:
    with counting(spark) as counts:
        spark.range(10).where("id > 3").groupBy().count()
    assert (counts.queries, counts.views, counts.jobs) == (0, 0, 0)
