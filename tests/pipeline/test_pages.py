"""What the pages say about Spark is so: their programs run, their names and versions are ours."""

import random
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet
from pyspark.sql import SparkSession
from redis import Redis

from tests.pipeline.ask import lakes
from tests.support.project import ROOT, tracked
from waystation.cli.sections import SECTIONS
from waystation.core.settings.load import together
from waystation.core.settings.section import rows
from waystation.core.settings.sources import variable_of
from waystation.pipeline.sources.store import URL_VARIABLE
from waystation.pipeline.spark.session import register, share_url

PROGRAM = re.compile(r"```python\n(.*?)```", re.DOTALL)
VERSION = re.compile(r"\bSpark (\d+\.\d+)|apache/spark:(\d+\.\d+)")
PAGES = sorted(tracked("docs/*.md"))
STREAMS = (ROOT / "docs/how-to/redis-streams-in-spark.md").read_text()


@pytest.fixture
def lent(spark: SparkSession, redis_url: str) -> Iterator[None]:
    """A session whose sources find the store by themselves."""
    share_url(spark, redis_url)
    yield
    spark.sparkContext.environment.pop(URL_VARIABLE)
    register(spark)


@pytest.mark.slow
@pytest.mark.usefixtures("lent")
def test_the_programs_of_the_page_about_data_sources_run(
    spark: SparkSession, store: Redis, redis_url: str
) -> None:
    page = (ROOT / "docs/how-to/spark-data-sources.md").read_text()
    given: dict[str, Any] = {"spark": spark, "url": redis_url}
    programs: list[str] = PROGRAM.findall(page)
    # The write is run again, and adds nothing.
    for program in [*programs, *(each for each in programs if ".write." in each)]:
        exec(program, given)
    assert store.llen("bull:mail:wait") == 1000
    assert given["jobs"].select("data").distinct().count() == 1000
    found = given["receipt"](redis_url, "mail", "june")
    assert (found.rows, found.jobs) == (1000, 1000)


@pytest.mark.slow
@pytest.mark.usefixtures("lent")
def test_the_programs_of_the_page_about_streams_run(spark: SparkSession, store: Redis) -> None:
    given: dict[str, Any] = {"spark": spark}
    for key in ("orders", "clicks:7", "clicks:8", "other"):
        store.xadd(key, {"page": "/home"})
    for program in PROGRAM.findall(STREAMS):
        exec(program, given)
    read = {(row["stream"], row["fields"]["page"]) for row in given["clicks"].collect()}
    assert read == {(key, "/home") for key in ("orders", "clicks:7", "clicks:8")}


def test_the_pages_name_only_versions_of_spark_that_can_be_installed() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (pinned,) = [
        each for each in extras["optional-dependencies"]["spark"] if each.startswith("pyspark")
    ]
    wanted = SpecifierSet(pinned.removeprefix("pyspark"))
    named = {
        (page.name, version)
        for page in PAGES
        for match in VERSION.findall(page.read_text())
        for version in match
        if version
    }
    assert named
    assert {each for each in named if each[1] not in wanted} == set()


def test_every_variable_that_a_page_names_is_read() -> None:
    known = {variable_of(setting.key) for setting in rows(together(SECTIONS))}
    slips = {variable.replace("__", "_") for variable in known}
    named = {
        (page.name, name)
        for page in PAGES
        for name in re.findall(r"\bWAYSTATION_[A-Z0-9_]+", page.read_text())
    }
    assert {each for each in named if each[1] in slips} == set()


def test_nothing_of_ours_uses_what_spark_keeps_to_itself() -> None:
    private = re.compile(r"^\s*from pyspark\.sql\.pandas|^\s*import pyspark\.sql\.pandas", re.M)
    ours = tracked("src/*.py")
    assert [file for file in ours if private.search(file.read_text())] == []


@pytest.mark.slow
def test_spark_reads_a_table_of_the_history_by_itself(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    jobs = [lakes.job(random.Random(number), number) for number in range(40)]
    lakes.keep(".waystation/history", jobs)
    page = (ROOT / "docs/how-to/read-the-history-with-other-tools.md").read_text()
    given: dict[str, Any] = {"spark": spark}
    (program,) = [each for each in PROGRAM.findall(page) if "spark.read" in each]
    exec(program, given)
    found = [(row["job_id"], row["date"]) for row in given["items"].collect()]
    assert sorted(found) == sorted((job["job_id"], job["added_at"].date()) for job in jobs)
