"""The questions that the pages ask: each names tables, columns and functions that exist."""

import re
from pathlib import Path

import pytest

from tests.support.project import ROOT, tracked
from waystation.pipeline.ask.engine import Engine
from waystation.pipeline.ask.live import SCHEMA
from waystation.pipeline.products import product_tables

QUESTION = re.compile(r"```sql\n(.*?)```", re.DOTALL)
PAGES = [page for page in tracked("docs/*.md") if QUESTION.search(page.read_text())]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_question_of_a_page_can_be_asked(page: Path, root: str) -> None:
    with Engine(root) as engine:
        engine.add_tables(product_tables())
        engine.add_rows("jobs", SCHEMA.empty_table())
        for question in QUESTION.findall(page.read_text()):
            assert engine.ask(question).names, question
