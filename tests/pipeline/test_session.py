"""What Spark is started with, and where a history may lie."""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession
from redis import Redis

from tests.pipeline.conftest import JAVA
from tests.pipeline.raw_streams import write_events
from tests.pipeline.saved import save
from waystation.core.errors import InvalidOption
from waystation.pipeline.bronze import ingest
from waystation.pipeline.history import History, checked_root
from waystation.pipeline.sources.store import URL_VARIABLE, url_option
from waystation.pipeline.spark import session
from waystation.pipeline.spark.java import Java
from waystation.pipeline.spark.session import (
    SessionOptions,
    machine_defaults,
    register,
    settings_of,
    share_url,
)
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.tables import EVENTS

MEMORY = "spark.driver.memory"
ZONE = "spark.sql.session.timeZone"
HEAP = """
from waystation.pipeline.spark.session import SessionOptions, build_session
spark = build_session(SessionOptions(master="local[1]", conf={"spark.sql.shuffle.partitions": "3"}))
print(spark.conf.get("spark.driver.memory"), spark.conf.get("spark.sql.shuffle.partitions"))
print(spark.sparkContext._jvm.java.lang.Runtime.getRuntime().maxMemory() // 2**20)
spark.stop()
"""


def test_the_settings_given_come_before_the_machines_and_those_before_ours(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# a comment\n\n  spark.driver.memory   3g\nspark.ui.enabled=true\n"
        "spark.eventLog.dir: /var/log/spark\nspark.sql.session.timeZone Europe/Berlin\n"
    )
    defaults = machine_defaults({"SPARK_CONF_DIR": str(tmp_path)})
    assert defaults["spark.eventLog.dir"] == "/var/log/spark"

    bare = settings_of(SessionOptions(), {})
    assert (bare[MEMORY], bare["spark.ui.enabled"]) == ("1g", "false")
    # What we leave out, Spark takes from the file.
    left = settings_of(SessionOptions(), defaults)
    assert not left.keys() & {MEMORY, "spark.ui.enabled"}
    assert left["spark.sql.session.timeZone"] == "UTC"

    assert settings_of(SessionOptions(driver_memory="5g"), defaults)[MEMORY] == "5g"
    both = SessionOptions(driver_memory="5g", conf={MEMORY: "7g"})
    assert settings_of(both, defaults)[MEMORY] == "7g"


def test_without_a_file_the_machine_has_no_defaults(tmp_path: Path) -> None:
    assert machine_defaults({"SPARK_CONF_DIR": str(tmp_path)}) == {}


@pytest.mark.long
def test_spark_starts_with_the_machines_own_defaults(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        f"spark.driver.memory 600m\nspark.driver.extraJavaOptions {JAVA}\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", HEAP],
        env={**os.environ, "SPARK_CONF_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    settings, heap_mb = done.stdout.splitlines()
    assert settings == "600m 3"
    assert int(heap_mb) <= 600


@pytest.mark.parametrize(
    ("place", "meant"),
    [
        ("history/", "history"),
        ("/shared/history", "/shared/history"),
        ("file:///shared/history/", "/shared/history"),
        ("file:/shared/history", "/shared/history"),
        ("C:/history", "C:/history"),
    ],
)
def test_a_history_lies_in_a_directory(place: str, meant: str) -> None:
    assert checked_root(place) == meant


@pytest.mark.parametrize(
    ("place", "meant"),
    [
        ("s3://lake/history", "s3://lake/history"),
        ("s3:/lake/history", "s3://lake/history"),
        ("s3a://lake/history/", "s3://lake/history"),
        ("gs://lake/history", "gs://lake/history"),
        ("hdfs://name:8020/history", "hdfs://name:8020/history"),
    ],
)
def test_an_object_store_has_one_name(place: str, meant: str) -> None:
    assert checked_root(place) == meant


def test_a_place_that_nobody_can_reach_is_refused() -> None:
    with pytest.raises(InvalidOption, match="got dbfs:/mnt/history"):
        checked_root("dbfs:/mnt/history")


def test_a_place_with_a_key_in_it_is_refused_and_not_shown() -> None:
    with pytest.raises(InvalidOption, match="must be in the environment") as refused:
        checked_root("s3://AKIA:hidden@lake/history")
    assert "hidden" not in str(refused.value)
    for place in (
        "abfss://lake@account.dfs.core.windows.net/history",
        "hdfs://me@name:8020/history",
    ):
        assert checked_root(place) == place


def test_a_url_that_was_lent_is_no_option(spark: SparkSession) -> None:
    url = "redis://:secret@127.0.0.1:1"
    before = spark.sparkContext.environment.get(URL_VARIABLE)
    assert url_option(spark, url) == {"url": url}
    share_url(spark, url)
    try:
        assert url_option(spark, url) == {}
        assert url_option(spark, "", "ANOTHER") == {"urlEnv": "ANOTHER"}
        with pytest.raises(Exception, match=r"127\.0\.0\.1:1"):
            spark.read.format("waystation.events").option("queues", "mail").load().count()
    finally:
        spark.sparkContext.environment.pop(URL_VARIABLE)
        if before is not None:
            spark.sparkContext.environment[URL_VARIABLE] = before
        register(spark)


@pytest.fixture
def other(spark: SparkSession) -> Iterator[SparkSession]:
    """A second session of the same Spark, in another time zone, without our sources."""
    session = spark.newSession()
    session.conf.set(ZONE, "Asia/Tokyo")
    yield session
    # The session of this thread is again the one that all tests share.
    spark.createDataFrame([], "nothing int")


@pytest.mark.slow
def test_sources_can_be_registered_with_a_second_session(
    other: SparkSession, store: Redis, redis_url: str
) -> None:
    store.xadd("orders", {"total": "7"})
    register(other)
    asked = {"url": redis_url, "streams": "orders"}
    assert other.read.format("waystation.streams").options(**asked).load().count() == 1
    rows = other.sql("select 'k' as key, 'send' as name")
    added = {"url": redis_url, "queue": "mail", "batch": "june"}
    rows.write.format("waystation.jobs").options(**added).mode("append").save()
    assert store.llen("bull:mail:wait") == 1
    # Sources leave the settings of a program alone.
    assert other.conf.get(ZONE) == "Asia/Tokyo"


def test_a_history_has_its_time_zone_also_in_a_session_that_knows_our_sources(
    other: SparkSession, root: str
) -> None:
    register(other)
    assert History(other, root).spark.conf.get(ZONE) == "UTC"


@pytest.mark.slow
def test_a_session_that_another_program_started_in_another_thread_will_do(
    spark: SparkSession, store: Redis, redis_url: str, root: str
) -> None:
    written = write_events(store, 20)
    theirs = spark.newSession()
    theirs.conf.set("spark.sql.session.timeZone", "America/New_York")
    history = History(theirs, root)

    def read_and_rewrite() -> int:
        ingest.start(history.spark, root, url=redis_url).finish()
        rows = history.read(EVENTS)
        save(rows, root, EVENTS, BatchId("again", 1), replace=True)
        return history.read(EVENTS).where("date = to_date(recorded_at)").count()

    with ThreadPoolExecutor(1) as another:
        assert another.submit(read_and_rewrite).result() == len(written)


def test_java_starts_sooner_on_this_machine_unless_its_options_are_given() -> None:
    options = "spark.driver.extraJavaOptions"
    ours = settings_of(SessionOptions(), {})[options]
    assert "TieredStopAtLevel" not in ours
    assert "TieredStopAtLevel=1" in settings_of(SessionOptions(few_rows=True), {})[options]
    assert "-XX:+UseSerialGC" in ours
    # A large heap is collected by many threads.
    assert "SerialGC" not in settings_of(SessionOptions(driver_memory="8g"), {})[options]
    assert settings_of(SessionOptions(master="spark://host:7077"), {})[options] == "-Xss4m"
    assert settings_of(SessionOptions(conf={options: "-Xint"}), {})[options] == "-Xint"
    assert options not in settings_of(SessionOptions(), {options: "-Xint"})


START = """
from waystation.pipeline.spark.session import build_session
spark = build_session()
print(spark.range(7).count())
"""


@pytest.mark.long
def test_an_archive_of_classes_is_made_once_and_used_from_then_on(tmp_path: Path) -> None:
    def started(cache: Path) -> None:
        done = subprocess.run(
            [sys.executable, "-c", START],
            env={**os.environ, "WAYSTATION_CACHE": str(cache)},
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stdout) == (0, "7\n"), done.stderr[-3000:]

    started(tmp_path)
    (archive,) = tmp_path.rglob("*.jsa")
    assert archive.stat().st_size > 10_000_000
    made = archive.stat().st_mtime_ns
    started(tmp_path)
    assert archive.stat().st_mtime_ns == made
    # A damaged one, and a place where none can be, only cost time.
    archive.chmod(0o600)
    archive.write_bytes(b"no archive")
    started(tmp_path)
    blocked = tmp_path / "file"
    blocked.touch()
    started(blocked / "cache")


def test_an_archive_that_is_not_made_is_tried_for_three_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAYSTATION_CACHE", str(tmp_path))
    monkeypatch.setattr("atexit.register", Mock())
    old, java = Java(tmp_path, "17.0.1", 17), Java(tmp_path, "17.0.2", 17)
    session.java_options(old)
    made = [session.java_options(java) for _ in range(4)]
    assert [each.partition("=")[0] for each in made] == ["-XX:ArchiveClassesAtExit"] * 3 + [""]
    # What another version of the same Java has left is gone.
    assert len(list((tmp_path / "classes").iterdir())) == 3
    assert session.java_options(None) == ""
