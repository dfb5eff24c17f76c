"""A Spark session that suits the pipeline, on this machine or on a cluster."""

import os
import sys

import msgspec
from pyspark.sql import SparkSession

from waystation.pipeline.bronze.archive import Archive
from waystation.pipeline.bronze.sink import BronzeSink
from waystation.pipeline.sources.events import Events
from waystation.pipeline.sources.jobs import Jobs
from waystation.pipeline.spark.java import java_home
from waystation.pipeline.storage.sink import DeltaSink

MASTER = "local[*]"


class SessionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What may differ from one session to the next."""

    master: str = MASTER
    name: str = "waystation"
    driver_memory: str = "1g"
    shuffle_partitions: int = 0
    """Parts that a shuffle makes; 0 means two for each processor of the session."""
    conf: dict[str, str] = {}
    """Anything else that Spark can be told."""


SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.python.daemon.module": "waystation.pipeline.spark.nursery",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Nobody looks at a plan that is described for a page that is not served.
    "spark.sql.ui.explainMode": "simple",
    # Noting where each column was written takes longer than making it: half of all words that
    # Python has with Java.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.dataFrameQueryContext.enabled": "false",
}
"""What the pipeline relies on, and what keeps a console readable and a short run short."""

_ON_THIS_MACHINE = {
    # Without them Spark asks for this machine's name, which can take long and helps nobody.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Renaming a file is atomic here; asking Hadoop for its kind of atomic costs more.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing"
        ".FileSystemBasedCheckpointFileManager"
    ),
}


def build(options: SessionOptions | None = None) -> SparkSession:
    """Start Spark, or join the session that runs, and make our data sources known to it."""
    options = options or SessionOptions()
    local = options.master.startswith("local")
    _prepare_environment(local=local)
    builder: SparkSession.Builder = SparkSession.builder.appName(options.name).master(
        options.master
    )
    settings = {
        **SETTINGS,
        **(_ON_THIS_MACHINE if local else {}),
        "spark.driver.memory": options.driver_memory,
        **options.conf,
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    cores = spark.sparkContext.defaultParallelism
    spark.conf.set("spark.sql.shuffle.partitions", str(options.shuffle_partitions or 2 * cores))
    register(spark)
    return spark


def register(spark: SparkSession) -> None:
    """Make `waystation.events`, `waystation.jobs` and the tables' sinks known to a session."""
    for source in (Events, Jobs, Archive, BronzeSink, DeltaSink):
        spark.dataSource.register(source)


def _prepare_environment(*, local: bool) -> None:
    os.environ.setdefault("JAVA_HOME", str(java_home()))
    # Spark would take whatever `python3` the path has.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
