"""The pages for those who come from elsewhere: what they say you write now, run as they say it."""

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from tests.support.processes import running
from tests.support.project import ROOT
from waystation import bullmq, sync, tasks

# Pytest rewrites our modules when they are first imported, and Python 3.11 cannot compile while the
# garbage of an earlier test is collected: what the pages import is there before.
IMPORTED = (bullmq, sync, tasks)

PAGES = sorted((ROOT / "docs/how-to").glob("come-from-*.md"))
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
COMMAND = re.compile(r"```\nwaystation (.*?)\n```")
CODE = re.compile(r"`([^`]+)`(?: → `([^`]+)`)?")
HEADER = "| you write | you write now |"


def cells(page: str) -> list[str]:
    """The right column of the table of what you write now."""
    rows = page.split(HEADER, 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    return [re.split(r"(?<!\\)\|", row)[2] for row in rows]


def compiled(code: str, nth: int) -> tuple[CodeType, bool]:
    """A cell as code, and whether it has a value."""
    if code.startswith("@"):
        code += f"\ndef declared_{nth}() -> None: ..."
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        return compile(code, "<cell>", "eval", flags, dont_inherit=True), True
    except SyntaxError:
        return compile(code, "<cell>", "exec", flags, dont_inherit=True), False


async def run(code: CodeType, names: dict[str, Any]) -> Any:
    value = eval(code, names)
    return await value if inspect.iscoroutine(value) else value


@pytest.fixture
def place(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory whose module shop can be imported, and the store in the environment."""
    monkeypatch.setenv("WAYSTATION_STORE__URL", redis_url)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "shop", raising=False)
    yield tmp_path
    sys.modules.pop("shop", None)


@pytest.mark.parametrize(
    "page", [path.read_text() for path in PAGES], ids=[path.stem for path in PAGES]
)
async def test_what_the_page_says_you_write_now_runs(
    page: str, place: Path, redis_url: str
) -> None:
    programs = PYTHON.findall(page)
    (shop,) = [each for each in programs if each.startswith("# shop.py\n")]
    (names_from,) = [each for each in programs if "from shop import" in each]
    (place / "shop.py").write_text(shop)
    work = COMMAND.search(page)
    assert work is not None

    command = ("-m", "waystation", *work[1].split())
    with running(place, *command, WAYSTATION_STORE__URL=redis_url) as worker:
        await worker.until(lambda it: it.events("worker_started"))
        names: dict[str, Any] = {"__name__": "page"}
        prepare, _ = compiled(names_from, 0)
        await run(prepare, names)
        ran = 0
        for nth, cell in enumerate(cells(page)):
            for code, wanted in CODE.findall(cell):
                if code.startswith("waystation "):
                    continue  # tests/architecture looks whether there is such a command
                try:
                    program, has_value = compiled(code, nth)
                    value = await run(program, names)
                    assert not wanted or has_value, "only a value can be compared"
                    assert not wanted or value == ast.literal_eval(wanted)
                except Exception as error:
                    error.add_note(f"in the line: {code}")
                    raise
                ran += 1
        assert ran >= 15
        await close(names)
        assert await worker.stop() == 0


async def close(names: dict[str, Any]) -> None:
    """Close what the page has opened."""
    if declared := names.get("tasks"):
        await declared.close()
        declared.sync.close()
    for opened in filter(None, map(names.get, ("queue", "other", "flows"))):
        closing = opened.close()
        if inspect.isawaitable(closing):
            await closing
