"""Errors of Spark and its Java, translated to ours."""

import logging
import re
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from deltalake.exceptions import DeltaError
from py4j.protocol import (  # pyright: ignore[reportMissingTypeStubs]
    Py4JError,
    Py4JJavaError,
    Py4JNetworkError,
)
from pyspark import SparkContext
from pyspark.errors import PySparkException

from waystation.core.errors import DiskFull, HeapExhausted, JavaDied, SparkFailed, WaystationError
from waystation.pipeline.storage.arrow import pa
from waystation.pipeline.storage.places import unreadable

_WAIT_S = 5.0
_CALLING = "An error occurred while calling "
"""The first line of an error in Java; what happened is in the second."""

_OURS = re.compile(r"^waystation\.[\w.]+\.(\w+): (.*)$", re.MULTILINE)
_RAISED = re.compile(r"^\w[\w.]*(?:Error|Exception): .*$", re.MULTILINE)
_HEAD = re.compile(r"^(?:[\w.$]+(?:Exception|Error): )+")
_FULL = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)
_UNREADABLE = re.compile(r"^Generic \w+ error|Parquet")
"""What object stores and damaged files are complained of with."""
_OF_FILES = (
    DeltaError,
    FileNotFoundError,
    NotADirectoryError,
    IsADirectoryError,
    PermissionError,
)
_HEAP = re.compile(r"java\.lang\.OutOfMemoryError|GC overhead limit exceeded")
_START_AGAIN = (
    "What is stored is intact; start again, and it continues where it stopped, with nothing lost "
    "and nothing twice"
)
_FREE_SPACE = (
    "a disk is full: the one with the history, or the one with Spark's temporary files "
    "(SPARK_LOCAL_DIRS, else the system's). What is stored is intact, and what is not stored yet "
    "is still in the streams until they are trimmed. Free some space and start again: it continues "
    "where it stopped, with nothing lost and nothing twice"
)


def report_lost_connections_once() -> None:
    """Keep a lost connection to Java out of the log, where py4j writes each with its traceback.

    It raises an error as well, which is translated and reported in a sentence.
    """
    logging.getLogger().addFilter(_is_no_lost_connection)


def _is_no_lost_connection(record: logging.LogRecord) -> bool:
    return record.exc_info is None or not isinstance(record.exc_info[1], Py4JNetworkError)


@contextmanager
def translated() -> Generator[None]:
    """Translate errors of Spark, of its Java and of a full disk raised inside."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise to_waystation_error(error) from error
    except (Py4JError, OSError, EOFError, DeltaError, pa.ArrowException) as error:
        if _FULL.search(str(error)):
            raise DiskFull(_FREE_SPACE) from error
        # No reply: a process that was just killed may take a moment to be gone.
        got_no_reply = isinstance(error, Py4JError | ConnectionError | EOFError)
        if (died := _death_of_java(_WAIT_S if got_no_reply else 0)) is not None:
            raise died from error
        if isinstance(error, Py4JError):
            raise to_waystation_error(error) from error
        if isinstance(error, _OF_FILES) or _UNREADABLE.search(str(error)):
            raise unreadable(error) from error
        raise


def to_waystation_error(error: Exception) -> WaystationError:
    """The error that a task or a source of ours raised; else the first line of Spark's."""
    text = str(error)
    if _FULL.search(text):
        return DiskFull(_FREE_SPACE)
    if (died := _death_of_java()) is not None:
        return died
    if _HEAP.search(text):
        return HeapExhausted(
            "Spark's Java ran out of heap. Raise pipeline.driver_memory (on a cluster "
            f"also spark.executor.memory in pipeline.spark). {_START_AGAIN}"
        )
    kinds = {kind.__name__: kind for kind in WaystationError.by_code.values()}
    for name, sentence in reversed(_OURS.findall(text)):
        if name in kinds:
            return kinds[name](sentence)
    lines = [line for each in text.splitlines() if (line := each.strip(": "))]
    if lines and lines[0].startswith(_CALLING):
        lines = lines[1:] or lines
    # A task's traceback ends with the error; Spark's own message begins with it.
    raised = _RAISED.findall(text) if "Traceback" in text else lines[:1]
    return SparkFailed(f"Spark did not finish: {_HEAD.sub('', raised[-1] if raised else text)}")


def _death_of_java(wait_s: float = 0.0) -> JavaDied | None:
    """The error for a Java process that has ended; None while it runs."""
    code = java_exit_code(wait_s)
    if code is None:
        return None
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    why = (
        "; a machine or container that runs out of memory does that. Give it more memory, or "
        "Spark's Java a smaller heap (pipeline.driver_memory)"
        if -code == signal.SIGKILL
        else ". Its heap is set by pipeline.driver_memory"
    )
    return JavaDied(f"Java, which Spark runs in, {how}{why}. {_START_AGAIN}")


def java_exit_code(wait_s: float = 0.0) -> int | None:
    """The exit code of Spark's Java, or minus the signal that killed it; waits for it so long.

    None while it runs, and when another program has started it.
    """
    # Spark has no public name for it.
    gateway: Any = getattr(SparkContext, "_gateway", None)
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is None:
        return None
    try:
        return process.wait(wait_s)
    except subprocess.TimeoutExpired:
        return None
