"""What Spark complains about, in our words: the error a task raised, not the way it came here."""

import re
from collections.abc import Generator
from contextlib import contextmanager

from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JJavaError  # pyright: ignore[reportMissingTypeStubs]
from pyspark.errors import PySparkException

from waystation.core.errors import WaystationError
from waystation.pipeline.errors import DiskFull, SparkFailed

_OURS = re.compile(r"^waystation\.[\w.]+\.(\w+): (.*)$", re.MULTILINE)
_RAISED = re.compile(r"^\w[\w.]*(?:Error|Exception): .*$", re.MULTILINE)
_HEAD = re.compile(r"^(?:[\w.$]+(?:Exception|Error): )+")
_FULL = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)
_MAKE_ROOM = (
    "a disk is full: the one that the history lies on, or the one that Spark works on "
    "(SPARK_LOCAL_DIRS, else the folder for temporary files). What was kept is whole, and what is "
    "not kept yet is still in the streams, as long as they have room for it. Make room and start "
    "again: it goes on where it stopped, with nothing lost and nothing twice"
)


@contextmanager
def in_our_words() -> Generator[None]:
    """Let whatever Spark or a full disk complains about inside be told in one sentence."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise meaning(error) from error
    except (OSError, DeltaError) as error:
        if _FULL.search(str(error)):
            raise DiskFull(_MAKE_ROOM) from error
        raise


def meaning(error: Exception) -> WaystationError:
    """The error that a task or a source of ours raised; else what Spark says first."""
    text = str(error)
    if _FULL.search(text):
        return DiskFull(_MAKE_ROOM)
    kinds = {kind.__name__: kind for kind in WaystationError.by_code.values()}
    for name, sentence in reversed(_OURS.findall(text)):
        if name in kinds:
            return kinds[name](sentence)
    lines = [line for each in text.splitlines() if (line := each.strip())]
    # A task's traceback ends with what was raised; Spark's own words begin with it.
    raised = _RAISED.findall(text) if "Traceback" in text else lines[:1]
    return SparkFailed(f"Spark did not finish: {_HEAD.sub('', raised[-1] if raised else text)}")
