"""Filesystems of places, as Arrow knows them."""

import os
from functools import lru_cache
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pyarrow.fs  # pyright: ignore[reportMissingTypeStubs]

from waystation.pipeline.storage.places import is_remote

# Not from our module `arrow`, which loads all of PyArrow.
fs: Any = pyarrow.fs


def filesystem(path: str) -> tuple[Any, str]:
    """The filesystem of a place, and the path within it."""
    if not is_remote(path):
        return fs.LocalFileSystem(), str(Path(path).absolute())
    url = urlsplit(path)
    if url.scheme == "s3":
        return _s3(os.environ.get("AWS_ENDPOINT_URL", ""), _region()), f"{url.netloc}{url.path}"
    return cast("tuple[Any, str]", fs.FileSystem.from_uri(path))


def _region() -> str | None:
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")


@lru_cache(8)
def _s3(endpoint: str, region: str | None) -> Any:
    """The same variables as delta-rs reads: endpoint, region and keys."""
    found = urlsplit(endpoint)
    given: dict[str, Any] = {"region": region} if region else {}
    if endpoint:
        given |= {"endpoint_override": found.netloc, "scheme": found.scheme}
    return fs.S3FileSystem(**given)
