"""The program that is measured: it folds the events of a folder for each line that it reads.

`python -m benchmarks.pipeline_fold.child FILES OUT EVENTS`
"""

import shutil
import sys
import time

import msgspec
from pyspark.sql import SparkSession

from waystation.pipeline.silver import lives
from waystation.pipeline.silver.moves import STEPS
from waystation.pipeline.silver.steps import steps
from waystation.pipeline.spark.session import SessionOptions, start_session
from waystation.pipeline.storage import task_files
from waystation.pipeline.storage.sessions import sized
from waystation.pipeline.tables import ATTEMPTS, EVENTS

TRIED = msgspec.structs.replace(ATTEMPTS, partitions=())
"""Attempts in one folder, as DuckDB writes them."""


def main(files: str, out: str, size: int) -> None:
    """Start Spark, and say the seconds of each fold."""
    spark = start_session(SessionOptions(master="local[2]", conf={"spark.log.level": "OFF"}))
    print("ready", flush=True)
    for _ in sys.stdin:
        began = time.perf_counter()
        _fold(spark, files, out, size)
        print(time.perf_counter() - began, flush=True)
    spark.stop()


def _fold(spark: SparkSession, files: str, out: str, size: int) -> None:
    shutil.rmtree(out, ignore_errors=True)
    stored = steps(spark.read.schema(EVENTS.schema).parquet(files))
    nothing = spark.createDataFrame([], STEPS.schema)
    with sized(spark, size):
        tried = lives.rows(nothing, stored)
        task_files.write_made(lives.changes, tried, out, {"added_attempts": TRIED})


if __name__ == "__main__":
    match sys.argv[1:]:
        case [files, out, events]:
            main(files, out, int(events))
        case _:
            sys.exit(__doc__)
