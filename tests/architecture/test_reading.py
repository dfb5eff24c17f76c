"""The reading lists of ARCHITECTURE.md: tracing the calls enters no file that they do not name."""

import asyncio
import re
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, cast

import pytest

from tests.support.project import ROOT, SOURCE
from waystation.bullmq import Job, Queue, Worker
from waystation.core.store.script import LuaScript

PAGE = (ROOT / "ARCHITECTURE.md").read_text()
LUA = SOURCE / "bullmq" / "redis" / "lua"
ADD, RUN = "Read `Queue.add`", "Read `Worker.run`"
MOST = {ADD: 8, RUN: 10}


def section(title: str) -> str:
    return re.split(r"^#+ ", PAGE.partition(f"# {title}\n")[2], flags=re.MULTILINE)[0]


def listed(title: str) -> list[str]:
    """The files of a reading list, in order."""
    return re.findall(r"^\d+\. `([^`]+)`", section(title), re.MULTILINE)


def leaves() -> list[str]:
    """What may be entered besides; a folder ends with a slash."""
    rows = re.findall(r"^\| (`.*?`) \| .+ \|$", section("Leaves"), re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


def unnamed(entered: set[str], title: str) -> list[str]:
    """The files that were entered and are neither in the list nor leaves."""
    named = {*listed(title), *leaves()}
    folders = tuple(name for name in named if name.endswith("/"))
    return sorted(name for name in entered - named if not name.startswith(folders))


@contextmanager
def tracing() -> Generator[set[str]]:
    """The project's files that are entered meanwhile, scripts too."""
    entered: set[str] = set()
    scripts: dict[int, LuaScript[Any, Any]] = {}
    start = f"{SOURCE}/"

    def look(frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if event != "call" or not file.startswith(start):
            return
        entered.add(file.removeprefix(start))
        if isinstance(frame.f_locals.get("self"), LuaScript):
            script = cast("LuaScript[Any, Any]", frame.f_locals["self"])
            scripts[id(script)] = script

    before = sys.getprofile()
    threading.setprofile(look)
    sys.setprofile(look)
    try:
        yield entered
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
        entered |= {each.script.where.removeprefix("waystation/") for each in scripts.values()}


def is_traced(name: str) -> bool:
    """Helpers are parts of the scripts that use them, and a script's function has no body."""
    return "/shared/" not in name and not name.endswith("/scripts.py")


def helpers(script: str) -> set[str]:
    """The files of the helpers that a script names in its header."""
    header = re.findall(r"^--- (?:uses|lazy)  ?(.*)$", (SOURCE / script).read_text(), re.MULTILINE)
    wanted = {name for line in header for name in line.split()}
    return {
        str(file.relative_to(SOURCE))
        for file in (LUA / "shared").glob("*.lua")
        if wanted & set(re.findall(r"^local function (\w+)", file.read_text(), re.MULTILINE))
    }


@pytest.mark.parametrize("title", [ADD, RUN])
def test_a_reading_list_is_short_and_names_files_that_exist(title: str) -> None:
    assert 0 < len(listed(title)) <= MOST[title]
    assert [name for name in [*listed(title), *leaves()] if not (SOURCE / name).exists()] == []


async def test_adding_a_job_enters_only_files_of_its_list(redis_url: str) -> None:
    async with Queue("read", redis_url) as queue:
        await queue.add("first", {})
        with tracing() as entered:
            await queue.add("a", {}, delay=60)

    assert unnamed(entered, ADD) == []
    read = [name for name in listed(ADD) if is_traced(name)]
    assert [name for name in read if name not in entered] == []


async def test_running_a_job_enters_only_files_of_its_list(redis_url: str) -> None:
    has_run = asyncio.Event()

    async def handle(job: Job) -> None:
        has_run.set()

    async with Queue("read", redis_url) as queue:
        await queue.add("a", {})
    with tracing() as entered:
        worker = Worker("read", handle, redis_url)
        running = asyncio.create_task(worker.run())
        await has_run.wait()
        await worker.close()
        await running

    assert unnamed(entered, RUN) == []
    read = [name for name in listed(RUN) if is_traced(name)]
    assert [name for name in read if name not in entered] == []


@pytest.mark.parametrize("title", [ADD, RUN])
def test_the_helpers_of_a_listed_script_are_named(title: str) -> None:
    scripts = [name for name in listed(title) if name.endswith(".lua") and "/shared/" not in name]
    named = {*listed(ADD), *listed(RUN), *leaves()}
    used = {file for name in scripts for file in helpers(name)}

    assert used
    assert sorted(used - named) == []


def test_a_file_that_no_list_names_would_be_noticed() -> None:
    assert unnamed({"bullmq/queue.py", "core/store/faults.py", "bullmq/flows.py"}, ADD) == [
        "bullmq/flows.py"
    ]
