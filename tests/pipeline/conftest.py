"""One Spark session for all tests of the pipeline, and a store that code without a loop can use."""

import logging
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from redis import Redis

from waystation.pipeline.spark.session import SessionOptions, build_session, register

JAVA = (
    "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:MetaspaceSize=256m -XX:ReservedCodeCacheSize=240m"
    " -Xss512k"
)
"""What lets Java start fast, and keeps it from running out of room for compiled code. The stack is
smaller than on any machine, so that what needs a large one fails on every machine."""
SMALL = SessionOptions(
    master="local[2]",
    shuffle_partitions=2,
    conf={
        "spark.driver.extraJavaOptions": JAVA,
        "spark.sql.adaptive.enabled": "false",
        # Compiling a query takes longer than a few rows do.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.log.level": "OFF",
    },
)
"""A session that starts fast and is fast with little."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        # The first one to ask for Spark waits until it has started.
        asks = "spark" in getattr(item, "fixturenames", ())
        if asks and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))


def session() -> SparkSession:
    """The session that all tests share, started when it is first needed.

    And once more where a command that a test has called has stopped it.
    """
    started: Any = _started()
    if started.sparkContext._jsc is None:
        _started.cache_clear()
        started = _started()
    return started


@cache
def _started() -> SparkSession:
    logging.getLogger("py4j").setLevel(logging.ERROR)
    started = build_session(SMALL)
    register(started)
    return started


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """The session that all tests share."""
    return session()


def pytest_sessionfinish() -> None:
    if _started.cache_info().currsize:
        _started().stop()


@pytest.fixture
def store(redis_url: str) -> Iterator[Redis]:
    """A client of an empty database, without a loop."""
    with Redis.from_url(redis_url, protocol=2) as client:
        yield client


@pytest.fixture
def root(tmp_path: Path) -> str:
    """Where a history can lie."""
    return str(tmp_path / "history")
