"""Sessions of Spark made ready for the pipeline, whoever started them."""

from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

REQUIRED = {"spark.sql.session.timeZone": "UTC"}
"""Settings that the pipeline relies on."""

_REGISTERED: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()


def prepared(spark: SparkSession, *sources: type[DataSource]) -> SparkSession:
    """The same session with the settings in `REQUIRED` and these sources, active in this thread."""
    if spark not in _REGISTERED:
        for name, value in REQUIRED.items():
            spark.conf.set(name, value)
    register(spark, *(each for each in sources if each.name() not in _registered(spark)))
    active: Any = SparkSession.getActiveSession()
    if active is not spark:
        # Spark looks for the format of a write in the session of the thread, which making a
        # DataFrame sets.
        spark.createDataFrame([], "nothing int")
    return spark


def register(spark: SparkSession, *sources: type[DataSource]) -> None:
    """Register sources with a session, also those that it knows already."""
    for source in sources:
        spark.dataSource.register(source)
        _registered(spark).add(source.name())


def _registered(spark: SparkSession) -> set[str]:
    return _REGISTERED.setdefault(spark, set())
