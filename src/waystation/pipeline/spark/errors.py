"""What Spark complains about, in our words: the error a task raised, not the way it came here."""

import re
import signal
from collections.abc import Generator
from contextlib import contextmanager

from deltalake.exceptions import DeltaError
from py4j.protocol import (  # pyright: ignore[reportMissingTypeStubs]
    Py4JError,
    Py4JJavaError,
)
from pyspark.errors import PySparkException

from waystation.core.errors import DiskFull, HeapExhausted, JavaDied, SparkFailed, WaystationError
from waystation.pipeline.spark import process

PATIENCE_S = 5.0

_OURS = re.compile(r"^waystation\.[\w.]+\.(\w+): (.*)$", re.MULTILINE)
_RAISED = re.compile(r"^\w[\w.]*(?:Error|Exception): .*$", re.MULTILINE)
_HEAD = re.compile(r"^(?:[\w.$]+(?:Exception|Error): )+")
_FULL = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)
_HEAP = re.compile(r"java\.lang\.OutOfMemoryError|GC overhead limit exceeded")
_GO_ON = (
    "What was kept is whole; start again, and it goes on where it stopped, with nothing lost and "
    "nothing twice"
)
_MAKE_ROOM = (
    "a disk is full: the one that the history lies on, or the one that Spark works on "
    "(SPARK_LOCAL_DIRS, else the folder for temporary files). What was kept is whole, and what is "
    "not kept yet is still in the streams, as long as they have room for it. Make room and start "
    "again: it goes on where it stopped, with nothing lost and nothing twice"
)


@contextmanager
def in_our_words() -> Generator[None]:
    """Report whatever Spark, its Java or a full disk complains about inside in one sentence."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise meaning(error) from error
    except (Py4JError, OSError, EOFError, DeltaError) as error:
        if _FULL.search(str(error)):
            raise DiskFull(_MAKE_ROOM) from error
        # Nobody answered: a process that was just killed may take a moment to be gone.
        is_deaf = isinstance(error, Py4JError | ConnectionError | EOFError)
        if (died := _death_of_java(PATIENCE_S if is_deaf else 0)) is not None:
            raise died from error
        if isinstance(error, Py4JError):
            raise meaning(error) from error
        raise


def meaning(error: Exception) -> WaystationError:
    """The error that a task or a source of ours raised; else what Spark says first."""
    text = str(error)
    if _FULL.search(text):
        return DiskFull(_MAKE_ROOM)
    if (died := _death_of_java()) is not None:
        return died
    if _HEAP.search(text):
        return HeapExhausted(
            "Spark's Java ran out of heap. Give it more with pipeline.driver_memory (on a cluster "
            f"also spark.executor.memory in pipeline.spark). {_GO_ON}"
        )
    kinds = {kind.__name__: kind for kind in WaystationError.by_code.values()}
    for name, sentence in reversed(_OURS.findall(text)):
        if name in kinds:
            return kinds[name](sentence)
    lines = [line for each in text.splitlines() if (line := each.strip())]
    # A task's traceback ends with what was raised; Spark's own words begin with it.
    raised = _RAISED.findall(text) if "Traceback" in text else lines[:1]
    return SparkFailed(f"Spark did not finish: {_HEAD.sub('', raised[-1] if raised else text)}")


def _death_of_java(wait_s: float = 0.0) -> JavaDied | None:
    """What to say when the process that Spark runs in is gone; None while it is there."""
    code = process.ended_with(wait_s)
    if code is None:
        return None
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    why = (
        "; that is what a machine or a container does that has run out of memory. Give it more, or "
        "Spark's Java a smaller heap (pipeline.driver_memory)"
        if -code == signal.SIGKILL
        else ". Its heap is set by pipeline.driver_memory"
    )
    return JavaDied(f"Java, which Spark runs in, {how}{why}. {_GO_ON}")
