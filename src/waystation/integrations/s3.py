"""Blobs in S3, or in an object store that speaks its API, such as MinIO, R2 or Ceph."""

import contextlib
import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from waystation.bullmq import Blob
from waystation.core.errors import InvalidOption, NotFound


class S3Blobs:
    """Large payloads as objects of a bucket: `PayloadOptions(blobs=S3Blobs("s3://bucket/shop"))`.

    Credentials and region come from where the tools of AWS look for them: the environment, the
    files in `~/.aws`, or the role of the machine. `endpoint` is the URL of another object store.
    """

    def __init__(self, url: str, *, endpoint: str | None = None, region: str | None = None) -> None:
        place = urlsplit(url)
        if place.scheme != "s3" or not place.netloc or place.query or place.fragment:
            raise InvalidOption(f"the place of blobs must be s3://bucket/prefix, got {url!r}")
        self.bucket = place.netloc
        """The name of the bucket."""
        self.root = "/".join([self.bucket, *filter(None, place.path.split("/"))])
        """The bucket, and what the names of all objects begin with."""
        self._endpoint = _checked(endpoint or _of_environment())
        self._region = region or os.environ.get("AWS_REGION")
        self._opened: tuple[int, Any] | None = None

    def write(self, name: str, raw: bytes) -> None:
        """Write an object; nobody ever sees a part of it."""
        with self._store.open_output_stream(self._place(name)) as stream:
            stream.write(raw)

    def read(self, name: str) -> bytes:
        """Read an object."""
        try:
            with self._store.open_input_stream(self._place(name)) as stream:
                return stream.read()
        except FileNotFoundError:
            # A bucket that cannot be found has lost nothing.
            self._check_bucket()
            raise NotFound(f"{name} is gone from s3://{self.root}") from None

    def delete(self, name: str) -> None:
        """Delete an object."""
        with contextlib.suppress(FileNotFoundError):
            self._store.delete_file(self._place(name))

    def of(self, queue: str) -> Iterator[Blob]:
        """The objects of a queue."""
        from pyarrow import fs  # pyright: ignore[reportMissingTypeStubs]

        self._check_bucket()
        arrow: Any = fs
        place = self._place(f"{queue}/x").rpartition("/")[0]
        for each in self._store.get_file_info(arrow.FileSelector(place, allow_not_found=True)):
            if each.type == arrow.FileType.File:
                yield Blob(f"{queue}/{each.base_name}", each.mtime)

    @property
    def _store(self) -> Any:
        # Opened when it is needed, and anew in a process that was forked since.
        if self._opened is None or self._opened[0] != os.getpid():
            self._opened = os.getpid(), _open(self._endpoint, self._region)
        return self._opened[1]

    def _check_bucket(self) -> None:
        [found] = self._store.get_file_info([self.bucket])
        if found.type.name == "NotFound":
            raise ConnectionError(f"the bucket {self.bucket} is not there")

    def _place(self, name: str) -> str:
        queue, _, id = name.partition("/")
        # A name comes from the store, and must not lead anywhere else.
        if any(part in ("", ".", "..") or "/" in part or "\0" in part for part in (queue, id)):
            raise InvalidOption(f"{name!r} is no name of a payload")
        return f"{self.root}/{queue}/{id}"

    def __repr__(self) -> str:
        return f"S3Blobs('s3://{self.root}')"


def _of_environment() -> str | None:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


def _checked(endpoint: str | None) -> str | None:
    if endpoint is not None and urlsplit(endpoint).scheme not in ("http", "https"):
        raise InvalidOption(f"endpoint must be a URL with http or https, got {endpoint!r}")
    return endpoint


def _open(endpoint: str | None, region: str | None) -> Any:
    try:
        from pyarrow import fs  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        raise InvalidOption("S3Blobs needs pyarrow: run pip install 'waystation[s3]'") from None
    given: dict[str, Any] = {"region": region} if region else {}
    if endpoint is not None:
        place = urlsplit(endpoint)
        given |= {"endpoint_override": place.netloc + place.path, "scheme": place.scheme}
    arrow: Any = fs
    return arrow.S3FileSystem(**given)
