"""Class archive: the classes that Java loads for Spark in a file, so that Spark starts faster.

The first program with a session on this machine makes it when it ends; a start with it takes half
of the processor time. There is one for each Java and each PySpark, and Java ignores one that does
not fit.
"""

import atexit
import hashlib
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkContext

from waystation.pipeline.spark.java import Java, cache

TRIES = 3
"""Programs that try to make it; one that is killed, or a Java that cannot, leaves none."""
ONE_FILE = 25
"""The first Java that keeps all classes in one file; others add to the file they come with."""
PATIENCE_S = 300.0


def java_options(java: Java | None) -> str:
    """Options for Java with which it uses the archive, or else makes one."""
    if java is None:
        return ""
    # A cache that cannot be written or read costs time, and nothing else.
    with suppress(OSError):
        file = _file(java)
        if file.exists():
            return f"-XX:{'AOTCache' if java.major >= ONE_FILE else 'SharedArchiveFile'}={file}"
        if _may_try(file):
            fresh = file.with_suffix(f".{os.getpid()}")
            atexit.register(_keep, fresh, file)
            making = "AOTCacheOutput" if java.major >= ONE_FILE else "ArchiveClassesAtExit"
            return f"-XX:{making}={fresh}"
    return ""


def _file(java: Java) -> Path:
    jars = Path(pyspark.__file__).parent / "jars"
    place = _digest(java.home, jars)
    return cache() / "classes" / f"{place}-{_digest(java.version, jars.stat().st_mtime_ns)}.jsa"


def _digest(*what: object) -> str:
    return hashlib.sha256(repr(what).encode()).hexdigest()[:12]


def _may_try(file: Path) -> bool:
    """Whether this program may make the archive; older ones of the same place are deleted."""
    file.parent.mkdir(parents=True, exist_ok=True)
    mine = f"{file.stem}.try"
    place, _, _ = file.stem.partition("-")
    for old in file.parent.glob(f"{place}-*"):
        if old.stem != file.stem:
            old.unlink(missing_ok=True)
    for number in range(TRIES):
        with suppress(FileExistsError):
            (file.parent / f"{mine}{number}").touch(exist_ok=False)
            return True
    return False


def _keep(fresh: Path, file: Path) -> None:
    """Let Java end, which writes the archive, and keep what it wrote."""
    # Spark has no public name for it.
    gateway: Any = getattr(SparkContext, "_gateway", None)
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is None:
        return
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        fresh.unlink(missing_ok=True)
    with suppress(OSError):
        fresh.replace(file)
