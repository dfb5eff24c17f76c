"""Places of tables: a directory, or a URL of an object store or of HDFS.

delta-rs commits, Arrow reads and writes: both reach every place without a jar. Spark's own reader
needs a connector for a place that is no directory; without one, its tasks read with Arrow, too.
"""

import importlib
import importlib.util
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from waystation.core.errors import HistoryError, InvalidOption

_CONNECTORS = {
    "s3": "hadoop-aws",
    "gs": "gcs-connector",
    "abfs": "hadoop-azure",
    "abfss": "hadoop-azure",
    "hdfs": "hadoop-client-api",
}
"""Schemes of places, and the jar that Spark reads each with."""
_VARIABLES = ("AWS_", "GOOGLE_", "AZURE_")
"""Beginnings of the variables by which object stores and their keys are found."""
_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}


def checked_root(path: str) -> str:
    """A place as all readers and writers name it; refuses a scheme that nobody here can reach.

    A settings file has its paths shortened, so `s3://bucket` may arrive as `s3:/bucket`.
    """
    scheme, found, rest = path.partition(":/")
    if not found or len(scheme) < 2 or "/" in scheme:
        return path.rstrip("/")
    scheme = _ALIASES.get(scheme.lower(), scheme.lower())
    if scheme == "file":
        return "/" + rest.strip("/")
    if scheme not in _CONNECTORS:
        raise InvalidOption(
            f"a history must be a directory, or a URL with {', '.join(_CONNECTORS)}; got {path}"
        )
    if ":" in rest.strip("/").partition("/")[0].rpartition("@")[0]:
        # Not shown: places appear in plans and logs, and this one holds a key.
        raise InvalidOption(
            f"the keys of {scheme}:// must be in the environment, not in the URL of a history"
        )
    return f"{scheme}://{rest.strip('/')}"


def is_remote(path: str) -> bool:
    """Whether a place is no directory of this machine."""
    return "://" in path


def missing_connector(path: str) -> str | None:
    """The jar that Spark's own reader lacks for a place; None when it lacks none."""
    if not is_remote(path):
        return None
    wanted = _CONNECTORS[urlsplit(path).scheme]
    there = any(any(jars.glob(f"{wanted}*.jar")) for jars in _jars())
    return None if there else wanted


def way(path: str) -> str:
    """Who reads and writes the tables of a place, in one sentence."""
    lacking = missing_connector(path)
    if lacking is None:
        return "Spark reads the tables itself"
    return (
        f"Spark has no {lacking} to read {urlsplit(path).scheme}:// with, so its tasks read the "
        "tables with Arrow"
    )


def credentials() -> dict[str, str]:
    """The variables by which Arrow and delta-rs find object stores and their keys."""
    return {name: value for name, value in os.environ.items() if name.startswith(_VARIABLES)}


def _jars() -> Iterator[Path]:
    """The folders with Spark's jars, found without importing Spark."""
    if home := os.environ.get("SPARK_HOME"):
        yield Path(home) / "jars"
    found = importlib.util.find_spec("pyspark")
    for folder in (found.submodule_search_locations or ()) if found else ():
        yield Path(folder) / "jars"


def filesystem(path: str) -> tuple[Any, str]:
    """The filesystem of a place, and the path within it."""
    if not is_remote(path):
        return _fs().LocalFileSystem(), str(Path(path).absolute())
    url = urlsplit(path)
    if url.scheme == "s3":
        return _s3(os.environ.get("AWS_ENDPOINT_URL", ""), _region()), f"{url.netloc}{url.path}"
    return cast("tuple[Any, str]", _fs().FileSystem.from_uri(path))


def _fs() -> Any:
    """Arrow's filesystems, loaded for whoever reads files: others only name a place."""
    return importlib.import_module("pyarrow.fs")


def _region() -> str | None:
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")


@lru_cache(8)
def _s3(endpoint: str, region: str | None) -> Any:
    """The same variables as delta-rs reads: endpoint, region and keys."""
    found = urlsplit(endpoint)
    given: dict[str, Any] = {"region": region} if region else {}
    if endpoint:
        given |= {"endpoint_override": found.netloc, "scheme": found.scheme}
    return _fs().S3FileSystem(**given)


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LONGEST_REASON = 300
_REMEDY = (
    "If the place is right and can be reached, files of it are damaged or missing: `waystation "
    "pipeline rebuild` builds silver and gold again from bronze"
)


def unreadable(error: Exception, place: str = "") -> HistoryError:
    """The error for a history whose files are damaged, or whose place cannot be reached."""
    reason = _COLOUR.sub("", str(error)).strip().splitlines()[0][:_LONGEST_REASON].strip(" :.")
    where = f" at {place}" if place else ""
    return HistoryError(f"the history{where} cannot be read or written: {reason}. {_REMEDY}")
