"""Nothing of the spec is left without a test."""

import ast
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def _named_in_docstrings() -> str:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return "\n".join(
        ast.get_docstring(node) or ""
        for file in HERE.glob("test_*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, functions) and node.name.startswith("test_")
    )


@pytest.mark.parametrize("number", range(1, 45))
def test_every_requirement_is_named_by_a_test(number: int) -> None:
    assert re.search(rf"(?<!F-)(?<!\w)T-{number}(?!\d)", _named_in_docstrings())


@pytest.mark.parametrize("number", range(1, 20))
def test_every_defect_is_named_by_a_test(number: int) -> None:
    assert re.search(rf"F-T{number}(?!\d)", _named_in_docstrings())
