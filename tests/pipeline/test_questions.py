"""The questions that the pages ask: each names tables, columns and functions that exist."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.project import ROOT, tracked
from waystation.pipeline.history import History
from waystation.pipeline.sources.jobs_reader import SCHEMA

QUESTION = re.compile(r"```sql\n(.*?)```", re.DOTALL)
PAGES = [page for page in tracked("docs/*.md") if QUESTION.search(page.read_text())]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_question_of_a_page_can_be_asked(page: Path, spark: SparkSession, root: str) -> None:
    History(spark, root).create_views()
    spark.createDataFrame([], SCHEMA).createOrReplaceTempView("jobs")
    for question in QUESTION.findall(page.read_text()):
        # To be told the columns, Spark must have understood all of it; nothing is read for that.
        assert spark.sql(question).columns, question
