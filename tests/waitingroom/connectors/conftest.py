"""A room over HTTP, and a shop behind it that a page of the documentation describes."""

import os
import re
import shlex
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from examples.shop.site import site as behind
from tests.support.ports import free_port
from tests.support.programs import listening
from tests.waitingroom.http import harness
from tests.waitingroom.middleware.block import Block
from waystation.core.http.server import serving
from waystation.waitingroom.http.options import ServerOptions

PAGES = Path(__file__).parents[3] / "docs" / "how-to"
_PROGRAM = re.compile(r"^```(?:python|js)\n(.+?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(
    r"(?:^3\. .+?^ +```\n|^```\n\n```\n) *(.+?)\n *```$", re.MULTILINE | re.DOTALL
)
_PORT = re.compile(r"\b(8080|8000|8088)\b")


@asynccontextmanager
async def opened(redis_url: str) -> AsyncGenerator[Block]:
    """A room on a port of this machine that may send visitors to a shop on another."""
    room, site = free_port(), free_port()
    options = ServerOptions(poll_floor=0, public_url=f"http://localhost:{room}")
    async with harness.service(redis_url, options, newcomers_per_minute=0) as service:
        await service.room.store.write({"return_hosts": f"localhost:{site}"})
        block = Block(service)
        block.room, block.port, block.origin = room, site, free_port()
        async with (
            serving(service.app, host="127.0.0.1", port=room),
            serving(behind, host="127.0.0.1", port=block.origin),
        ):
            yield block


@asynccontextmanager
async def following(page: str, block: Block, folder: Path) -> AsyncGenerator[None]:
    """Do what the page says: save its program, and run its command."""
    ports = {"8080": str(block.room), "8000": str(block.port), "8088": str(block.origin)}
    text = _section(page)
    program = program_of(page)
    line = _ported(_COMMAND.findall(text)[0], ports)
    command = shlex.split(line.replace("examples/", f"{PAGES.parents[1]}/examples/"))
    name = "shop.py" if "```python" in text else "worker.mjs"
    (folder / name).write_text(_ported(program, ports))
    found = Path(sys.executable).with_name(command[0])
    here = {**os.environ, "PYTHONPATH": str(folder)}
    command[0] = str(found) if found.exists() else command[0]
    async with listening(block.port, folder, *command, env=here):
        yield


def program_of(page: str) -> str:
    """What a page says to save."""
    (program,) = _PROGRAM.findall(_section(page))
    return str(program)


def _section(page: str) -> str:
    """What a page says, or one section of it, as in `python-sites#Flask`."""
    name, _, heading = page.partition("#")
    text = (PAGES / f"{name}.md").read_text()
    return text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0] if heading else text


def _ported(text: str, ports: dict[str, str]) -> str:
    return _PORT.sub(lambda found: ports[found[0]], text)


@pytest.fixture
async def shop(
    request: pytest.FixtureRequest, redis_url: str, tmp_path: Path
) -> AsyncGenerator[Block]:
    """The shop of the page that the test names."""
    page: str = request.param
    async with opened(redis_url) as block, following(page, block, tmp_path):
        yield block
