"""The Java process that Spark runs in."""

import subprocess
from typing import Any

from pyspark import SparkContext


def ended_with(wait_s: float = 0.0) -> int | None:
    """The exit code of Spark's Java, or minus the signal that killed it; waits for that so long.

    None while it runs, and where another program has started it.
    """
    # Spark keeps it here and shows it nowhere else.
    gateway: Any = getattr(SparkContext, "_gateway", None)
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is None:
        return None
    try:
        return process.wait(wait_s)
    except subprocess.TimeoutExpired:
        return None
