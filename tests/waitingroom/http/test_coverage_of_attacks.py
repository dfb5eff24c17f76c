"""Every attack of the reference has a test that bears its number."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[2]
FOLDERS = ("waitingroom", "chaos")
ATTACKS = range(1, 61)
PROXIED = {12, 23, 24, 25, 26, 27, 28, 29}
"""What only a real proxy in between can show."""
_NAME = re.compile(r"test_((?:\d+_(?:and_)?)+)")
_DOCSTRING = re.compile(r"[Aa]ttacks? ((?:\d+(?:, | and )?)+)")


def numbers(folder: str) -> Iterator[int]:
    """The numbers that the tests of a folder bear, in their names or first lines."""
    for file in (TESTS / folder).rglob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                matches = [_NAME.match(node.name), _DOCSTRING.search(ast.get_docstring(node) or "")]
                for found in filter(None, matches):
                    yield from (int(each) for each in re.findall(r"\d+", found[1]))


def test_every_attack_is_tried() -> None:
    tried = {number for folder in FOLDERS for number in numbers(folder)}
    assert sorted(set(ATTACKS) - tried) == []
    assert sorted(tried - set(ATTACKS)) == []


def test_what_needs_a_proxy_is_tried_through_one() -> None:
    assert sorted(PROXIED - set(numbers("waitingroom/middleware"))) == []
