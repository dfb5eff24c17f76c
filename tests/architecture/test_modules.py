"""Rules that hold for every module of the product."""

import ast
from pathlib import Path

import pytest

from tests.support.project import ROOT, SOURCE, tracked
from tools.generated import is_made
from tools.reference import import_everything
from waystation.core.store.script import LuaScript

LONGEST = 600
MODULES = sorted(SOURCE.rglob("*.py"))
NAMES = [str(file.relative_to(SOURCE)) for file in MODULES]


@pytest.mark.parametrize("file", MODULES, ids=NAMES)
def test_a_module_says_what_it_is_for(file: Path) -> None:
    words = ast.get_docstring(ast.parse(file.read_text()))
    assert words, "wanted a docstring of one sentence, got none"
    assert words.split("\n\n")[0].rstrip().endswith((".", ":")), "wanted a whole sentence"


def test_every_script_has_a_function() -> None:
    import_everything()
    declared = {script.script.where for script in LuaScript.every}
    scripts = {
        file.relative_to(SOURCE.parent).as_posix()
        for file in SOURCE.rglob("*.lua")
        if file.parent.name != "shared"
    }
    assert sorted(scripts - declared) == []


def test_every_script_is_well_formed_and_takes_what_its_function_does() -> None:
    import_everything()
    for each in LuaScript.every:
        if each.package.startswith("waystation."):
            assert each.header
            each.script.check()


def test_files_are_short_enough_to_read() -> None:
    counted = {
        str(file.relative_to(ROOT)): len(file.read_text().splitlines())
        for file in tracked("*.py", "*.lua", "*.mjs")
        if not is_made(file)
    }
    long = {name for name, lines in counted.items() if lines > LONGEST}
    assert sorted(long) == []
