"""A Spark session that suits the pipeline, on this machine or on a cluster."""

import os
import sys
from collections.abc import Mapping

import msgspec
from pyspark.sql import SparkSession

from waystation.core.errors import InvalidOption
from waystation.pipeline.bronze.archive import Archive
from waystation.pipeline.bronze.sink import BronzeSink
from waystation.pipeline.sources.events import Events
from waystation.pipeline.sources.jobs import Jobs
from waystation.pipeline.sources.store import URL_VARIABLE
from waystation.pipeline.spark.defaults import machine_defaults
from waystation.pipeline.spark.java import java_home
from waystation.pipeline.storage.delta_sink import DeltaSink

MASTER = "local[*]"
_PARTITIONS = "spark.sql.shuffle.partitions"


class SessionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What may differ from one session to the next."""

    master: str = MASTER
    name: str = "waystation"
    driver_memory: str = ""
    """Heap of the driver, such as `4g`; else what spark-defaults.conf says, else 1g."""
    shuffle_partitions: int = 0
    """Parts that a shuffle makes; 0 means two for each processor of the session."""
    conf: dict[str, str] = {}
    """Any of Spark's own settings; what the pipeline relies on cannot be changed."""

    def __post_init__(self) -> None:
        for name, value in self.conf.items():
            if not name.startswith("spark."):
                raise InvalidOption(f"wanted a setting of Spark, such as spark.ui.port; got {name}")
            if value != REQUIRED.get(name, value):
                raise InvalidOption(f"{name} must be {REQUIRED[name]} here, got {value}")


REQUIRED = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
}
"""What the pipeline relies on."""

PREFERRED = {
    "spark.driver.memory": "1g",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.python.daemon.module": "waystation.pipeline.spark.worker_daemon",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Nobody looks at a plan that is described for a page that is not served.
    "spark.sql.ui.explainMode": "simple",
    # Noting where each column was written takes longer than making it: half of all words that
    # Python has with Java.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.dataFrameQueryContext.enabled": "false",
    # A starved machine takes its time to start a process.
    "spark.python.authenticate.socketTimeout": "300s",
}
"""What keeps a console readable and a short run short; spark-defaults.conf comes before it."""

_ON_THIS_MACHINE = {
    # Without them Spark asks for this machine's name, which can take long and helps nobody.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Whoever is silent here is starved, not gone.
    "spark.network.timeout": "600s",
    # Renaming a file is atomic here; asking Hadoop for its kind of atomic costs more.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing"
        ".FileSystemBasedCheckpointFileManager"
    ),
}


def build(options: SessionOptions | None = None) -> SparkSession:
    """Start Spark, or join the session that runs, and make our data sources known to it."""
    options = options or SessionOptions()
    _prepare_environment(local=options.master.startswith("local"))
    builder: SparkSession.Builder = SparkSession.builder.appName(options.name).master(
        options.master
    )
    defaults = machine_defaults()
    for name, value in settings_of(options, defaults).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if options.shuffle_partitions or _PARTITIONS not in {**defaults, **options.conf}:
        cores = spark.sparkContext.defaultParallelism
        spark.conf.set(_PARTITIONS, str(options.shuffle_partitions or 2 * cores))
    register(spark)
    return spark


def settings_of(options: SessionOptions, defaults: Mapping[str, str]) -> dict[str, str]:
    """What Spark is given: ours where the machine's defaults and the options say nothing else."""
    local = options.master.startswith("local")
    ours = {**PREFERRED, **(_ON_THIS_MACHINE if local else {})}
    memory = {"spark.driver.memory": options.driver_memory} if options.driver_memory else {}
    unsaid = {name: value for name, value in ours.items() if name not in defaults}
    return {**unsaid, **memory, **options.conf, **REQUIRED}


def register(spark: SparkSession) -> None:
    """Make `waystation.events`, `waystation.jobs` and the tables' sinks known to a session."""
    for source in (Events, Jobs, Archive, BronzeSink, DeltaSink):
        spark.dataSource.register(source)


def lend(spark: SparkSession, url: str) -> None:
    """Let our data sources find the store's URL in the environment of Spark's Python processes.

    A URL may hold a password, and options end up in plans and logs.
    """
    if spark.sparkContext.environment.get(URL_VARIABLE) != url:
        spark.sparkContext.environment[URL_VARIABLE] = url
        # Sources take the environment along that they were registered with.
        register(spark)


def _prepare_environment(*, local: bool) -> None:
    os.environ.setdefault("JAVA_HOME", str(java_home()))
    # Spark would take whatever `python3` the path has.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
