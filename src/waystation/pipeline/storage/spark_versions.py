"""Versions of Spark that the pipeline runs on."""

import re
from importlib.metadata import PackageNotFoundError, version

from waystation.core.errors import SparkNotStarted

OLDEST = (4, 2)
"""The first version in which a source in Python decides how far a run goes."""


def require_supported(found: str) -> None:
    """Refuse a version of Spark that is too old."""
    numbers = re.match(r"(\d+)\.(\d+)", found)
    if numbers is None or tuple(map(int, numbers.groups())) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise SparkNotStarted(f"wanted Spark {wanted} or newer, got {found}")


def require_installed() -> None:
    """Refuse an installed Spark that is too old; says nothing where none is installed."""
    try:
        found = version("pyspark")
    except PackageNotFoundError:
        return
    require_supported(found)
