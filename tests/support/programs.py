"""Programs that a test needs and a machine may lack."""

import asyncio
import os
import shutil
import signal
from asyncio.subprocess import DEVNULL, STDOUT, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.support.patience import LIMIT_S

FETCHED = Path(__file__).parents[2] / ".tools" / "bin"


def require_program(name: str, *, package: str) -> str:
    """The way to a program, from the machine or fetched by `make test`."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}{os.pathsep}{FETCHED}")
    if found is None:
        cannot_run(
            f"{name} is not here; `apt install {package}`, or `make test` as root, brings it"
        )
    return found


def cannot_run(reason: str) -> NoReturn:
    """Skip the test and say why; where CI is set nothing may be skipped, so fail."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@asynccontextmanager
async def listening(
    port: int, folder: Path, *command: str, asked: bytes = b"", **options: Any
) -> AsyncGenerator[None]:
    """Run a program that listens there, until it does; with `asked`, until it answers that well."""
    log = folder / "log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=folder,
            stdin=DEVNULL,
            stdout=output,
            stderr=STDOUT,
            start_new_session=True,
            **options,
        )
    try:
        async with asyncio.timeout(LIMIT_S):
            while not await _answers(port, asked):
                assert process.returncode is None, await asyncio.to_thread(log.read_text)
                await asyncio.sleep(0.02)
        yield
    finally:
        await _end(process)


async def _answers(port: int, asked: bytes) -> bool:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with closing(writer):
            writer.write(asked)
            return not asked or (await reader.read()).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


async def _end(process: Process) -> None:
    # All of it: a command may be a shell around the program that listens.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
