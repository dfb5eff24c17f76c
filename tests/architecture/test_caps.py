"""Nothing is cut silently: every cap in the code is known, with how whoever meets it learns of it.

`caps.toml` has them all. A cap that is not in it fails: decide how it is shown, and write it down.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.support.project import SOURCE

KNOWN = tomllib.loads(Path(__file__).with_name("caps.toml").read_text())
NAME = re.compile(
    r"(^|_)(MOST|LIMIT|LONGEST|CAP|KEPT|SHOWN|PER|SHORT|EXAMPLES|NEAREST|LARGEST|MAX)(_|$)"
)
A_TIME = ("_S", "_MS", "_MINUTES", "_DAYS")
PARAMETERS = ("limit", "most", "count")
OF_AN_IDENTITY = ("digest", "split(", "hmac", "findall")
"""Beginnings of these are no shorter list of anything."""


def caps() -> Iterator[str]:
    """Every cap, as `file::NAME`, `file::function(limit=100)` or `file::text[:40]`."""
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        place = path.relative_to(SOURCE).as_posix()
        yield from (f"{place}::{name}" for name in _constants(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from (f"{place}::{node.name}({each})" for each in _defaults(node.args))
            elif isinstance(node, ast.Subscript) and _is_cut(node):
                yield f"{place}::{ast.unparse(node)}"


def _constants(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if NAME.search(name) and not name.endswith(A_TIME) and _is_number(node.value):
                yield name


def _defaults(arguments: ast.arguments) -> Iterator[str]:
    named = [*arguments.posonlyargs, *arguments.args]
    given: list[tuple[ast.arg, ast.expr | None]] = [
        *zip(named[::-1], arguments.defaults[::-1], strict=False),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    for name, value in given:
        if name.arg in PARAMETERS and value and _is_number(value) and ast.unparse(value) != "0":
            yield f"{name.arg}={ast.unparse(value)}"


def _is_cut(node: ast.Subscript) -> bool:
    part = node.slice
    if not isinstance(part, ast.Slice) or part.lower or part.step:
        return False
    up_to = part.upper.value if isinstance(part.upper, ast.Constant) else None
    if not isinstance(up_to, int) or up_to <= 2:
        return False
    whole = ast.unparse(node)
    return not any(each in whole for each in OF_AN_IDENTITY)


def _is_number(value: ast.expr) -> bool:
    return not any(
        isinstance(each, ast.Call | ast.Dict | ast.Tuple)
        or (isinstance(each, ast.Constant) and type(each.value) not in (int, float))
        for each in ast.walk(value)
    )


def test_every_cap_is_known_with_how_it_is_reported() -> None:
    lists = [name for kind in ("refused", "paged", "inside", "left") for name in KNOWN[kind]]
    found, known = set(caps()), {*KNOWN["reported"], *lists}

    assert sorted(found - known) == [], "say in caps.toml how whoever meets it learns of it"
    assert sorted(known - found) == [], "these are gone from the code"


def test_what_is_cut_says_so_where_the_table_says() -> None:
    silent: dict[str, str] = {}
    for name, where in KNOWN["reported"].items():
        place, _, text = where.partition(": ")
        if text not in (SOURCE / place).read_text():
            silent[name] = where
    assert silent == {}
