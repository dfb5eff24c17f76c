"""What Spark's tasks complain about reaches people as one sentence."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from waystation.core.errors import StoreUnreachable
from waystation.pipeline.errors import HeapExhausted, SparkFailed
from waystation.pipeline.spark.complaints import in_our_words


def test_an_error_of_ours_comes_through_as_it_was_raised(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("a", "send")], "key string, name string")
    options = {"queue": "mail", "batch": "b", "url": "redis://127.0.0.1:1"}
    writer = rows.write.format("waystation.jobs").options(**options).mode("append")
    with pytest.raises(StoreUnreachable, match=r"^[^\n]+$"), in_our_words():
        writer.save()


def test_what_spark_itself_says_is_cut_to_its_first_line(spark: SparkSession) -> None:
    failing = spark.range(1).select(F.raise_error(F.lit("no such luck")))
    wanted = r"^Spark did not finish: [^\n]*no such luck"
    with pytest.raises(SparkFailed, match=wanted), in_our_words():
        failing.collect()


def test_what_a_library_raised_in_a_task_is_told_without_the_way_it_came(
    spark: SparkSession,
) -> None:
    def fail(_: object) -> int:
        raise ZeroDivisionError("one by none")

    with pytest.raises(SparkFailed, match=r"^Spark did not finish: one by none$"), in_our_words():
        spark.sparkContext.parallelize([1], 1).map(fail).collect()


def test_a_heap_that_is_too_small_is_told_with_what_to_do(spark: SparkSession) -> None:
    failing = spark.range(1).select(F.raise_error(F.lit("java.lang.OutOfMemoryError: Java heap")))
    with pytest.raises(HeapExhausted, match=r"pipeline\.driver_memory"), in_our_words():
        failing.collect()
