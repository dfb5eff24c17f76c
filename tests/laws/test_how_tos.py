"""Every program and command of README and the how-to pages is run, or says why not."""

import ast
import asyncio
import random
import re
import shlex
import tomllib
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from tests.pipeline.ask import lakes
from tests.support.project import ROOT
from waystation.cli.root import run as cli

KNOWN = tomllib.loads(Path(__file__).with_name("how_tos.toml").read_text())
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs/how-to").glob("*.md"))]
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
FENCED = re.compile(r"```(?:\w*)\n(.*?)```", re.DOTALL)
SHOWN = re.compile(r"(?:\$ )?(?:[A-Z_]+=\S+ )*waystation ([a-z].+)")
PROGRAMS = {page.name: found for page in PAGES if (found := PYTHON.findall(page.read_text()))}
HERE = [name for name in PROGRAMS if name not in KNOWN["tested"]]
GLIMPSE_S = 0.5
"""How long a program that ends by no means of its own is looked at."""


def test_what_is_said_of_programs_is_about_one_that_there_is() -> None:
    numbered = {f"{name}#{n}" for name in PROGRAMS for n in range(1, len(PROGRAMS[name]) + 1)}
    assert {*KNOWN["left"], *KNOWN["endless"]} <= numbered
    assert KNOWN["before"].keys() <= numbered | PROGRAMS.keys()
    assert KNOWN["tested"].keys() <= PROGRAMS.keys()
    for page, test in KNOWN["tested"].items():
        # Some read all pages of one kind.
        words = (page, page.split("-")[0] + "-from-*", Path(page).stem)
        assert any(word in (ROOT / "tests" / test).read_text() for word in words), page


@pytest.mark.parametrize("name", HERE)
async def test_the_programs_of_a_page_run(
    name: str, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAYSTATION_STORE__URL", redis_url)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    await run(KNOWN["before"].get(name, ""), names, redis_url)
    for number, program in enumerate(PROGRAMS[name], 1):
        place = f"{name}#{number}"
        if place in KNOWN["left"]:
            continue
        await run(KNOWN["before"].get(place, ""), names, redis_url)
        if place in KNOWN["endless"]:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(run(program, names, redis_url), GLIMPSE_S)
        else:
            await run(program, names, redis_url)
    await close(names)


async def run(program: str, names: dict[str, Any], url: str) -> None:
    there = re.sub(r"redis://(localhost|127\.0\.0\.1)(:6379)?", url, program)
    code: CodeType = compile(there, "page", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    answer = eval(code, names)
    if asyncio.iscoroutine(answer):
        await answer


async def close(names: dict[str, Any]) -> None:
    """Close what a page leaves to its reader's program."""
    for each in [*names.get("workers", ()), *names.values()]:
        if isinstance(each, AbstractAsyncContextManager):
            await each.__aexit__(None, None, None)


def commands() -> Iterator[list[str]]:
    """What the pages show to type, without the words that explain it."""
    lines = [
        line.strip()
        for page in PAGES
        for block in FENCED.findall(page.read_text())
        for line in block.replace("\\\n", " ").splitlines()
    ]
    shown = [
        re.sub(r" {3,}.*| #.*", "", found[1]) for each in lines if (found := SHOWN.match(each))
    ]
    for said in dict.fromkeys(shown):
        # One goes on in the next line.
        if said.count('"') % 2 == 0 and not said.startswith((*KNOWN["commands"],)):
            yield shlex.split(said)


@pytest.mark.slow
def test_the_commands_of_the_pages_work_or_end_with_a_sentence(
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("WAYSTATION_STORE__URL", redis_url)
    monkeypatch.chdir(tmp_path)
    dice = random.Random(7)
    lakes.keep(str(tmp_path / ".waystation/history"), [lakes.job(dice, n) for n in range(20)])
    complaints: list[str] = []
    for words in commands():
        with pytest.raises(SystemExit) as ended:
            cli(words)
        out, err = capsys.readouterr()
        if ended.value.code and not out and err.count("\n") != 1:
            complaints.append(f"{shlex.join(words)}: {err}")
        if "Traceback" in out + err or "unexpected" in err:
            complaints.append(f"{shlex.join(words)}: {err}")
    assert not complaints, "\n".join(complaints)
