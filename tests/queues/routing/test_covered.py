"""Every statement and every fault of the document has a test that names it."""

import re
from pathlib import Path

TESTS = "\n".join(file.read_text() for file in Path(__file__).parent.glob("test_*.py"))


def test_every_statement_of_the_document_has_a_test() -> None:
    named = {int(number) for number in re.findall(r"\bB-(\d+)", TESTS)}

    assert sorted(set(range(1, 69)) - named) == []


def test_every_fault_of_the_document_has_a_test() -> None:
    named = {int(number) for number in re.findall(r"\bF-B(\d+)", TESTS)}

    assert sorted(set(range(1, 22)) - named) == []
