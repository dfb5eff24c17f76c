"""Sessions of Spark made ready for the pipeline, whoever started them."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from waystation.pipeline.storage.spark_versions import require_supported

REQUIRED = {
    "spark.sql.session.timeZone": "UTC",
    # Files are chosen by their days before they are read. What Spark adds to that in a join may
    # remain above a cached frame, where nobody computes it and the task that asks for it fails.
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
}
"""Settings that the pipeline relies on."""

FEW_ROWS = 100_000
"""Rows up to which compiling a plan takes longer than it saves."""
SORTED_ROWS = 500_000
"""Rows of a partition that a task can sort in a heap of 1 GB without putting them on the disk."""
_PARTITIONS = "spark.sql.shuffle.partitions"
_FOR_FEW = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    _PARTITIONS: "1",
}
_FOR_MANY = {
    # Spark would ask for the size of a batch at each of its rows, which takes as long as writing
    # it. So a batch has fewer rows instead: their texts may be long.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "8192",
    # A few texts are compared sooner than they are looked up in a set.
    "spark.sql.optimizer.inSetConversionThreshold": "100",
}

_PREPARED: WeakSet[SparkSession] = WeakSet()
_REGISTERED: WeakKeyDictionary[SparkSession, dict[str, type[DataSource]]] = WeakKeyDictionary()


def is_connected(spark: object) -> bool:
    """Whether a session is a client of a Spark Connect server: it has no Java of its own."""
    return not isinstance(spark, SparkSession)


def prepared(spark: SparkSession, *sources: type[DataSource]) -> SparkSession:
    """The same session with the settings in `REQUIRED` and these sources, active in this thread."""
    # A program may have registered sources before, which leaves its settings alone.
    if spark not in _PREPARED:
        for name, value in REQUIRED.items():
            spark.conf.set(name, value)
        _PREPARED.add(spark)
    missing = [each for each in sources if each.name() not in _registered(spark)]
    active: Any = SparkSession.getActiveSession()
    if missing:
        register(spark, *missing)
    elif active is not spark:
        _activate(spark)
    return spark


@contextmanager
def sized(spark: SparkSession, rows: int) -> Generator[SparkSession]:
    """The same session, with settings for a batch of so many rows in the block.

    Few are interpreted, in one partition: no code is generated, and no plan is changed on the way.
    Of many, each partition has what fits into memory.
    """
    least = int(spark.conf.get(_PARTITIONS) or 1)
    for_many = {**_FOR_MANY, _PARTITIONS: str(max(least, rows // SORTED_ROWS))}
    settings = _FOR_FEW if rows <= FEW_ROWS else for_many
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield spark
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)  # pyright: ignore[reportArgumentType]


def share(spark: SparkSession, variables: Mapping[str, str]) -> None:
    """Give variables to the Python processes of a session's sources, in their environment alone.

    Settings and options appear in plans, logs and Spark's pages.
    """
    environment = spark.sparkContext.environment
    if any(environment.get(name) != value for name, value in variables.items()):
        environment.update(variables)
        # Sources use the environment that they were registered with.
        register(spark, *_registered(spark).values())


def register(spark: SparkSession, *sources: type[DataSource]) -> None:
    """Register sources with a session, also those that it knows already, and make it active in this
    thread."""
    require_supported(spark.version)
    # Spark looks for a name in the session of the thread too, and refuses one that it finds there.
    _activate(spark)
    for source in sources:
        spark.dataSource.register(source)
        _registered(spark)[source.name()] = source


def _activate(spark: SparkSession) -> None:
    # Spark looks for the format of a write in the session of the thread, which making a DataFrame
    # sets.
    spark.createDataFrame([], "nothing int")


def _registered(spark: SparkSession) -> dict[str, type[DataSource]]:
    return _REGISTERED.setdefault(spark, {})
