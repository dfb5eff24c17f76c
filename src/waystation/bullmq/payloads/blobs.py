"""Blobs: payloads that are too large for the store, kept in a directory."""

import os
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from waystation.core.errors import InvalidOption, NotFound
from waystation.core.options import checked

_UNFINISHED = ".part"


class Blob(NamedTuple):
    """A payload that is kept outside the store."""

    name: str
    written_at: datetime


@runtime_checkable
class Blobs(Protocol):
    """Where large payloads are kept; a directory, or an object store of your own.

    Names have the form `queue/id`. All methods block, and are called in threads.
    """

    def write(self, name: str, raw: bytes) -> None:
        """Keep a payload; when it returns, every worker can read it."""
        ...

    def read(self, name: str) -> bytes:
        """A payload; raises `NotFound` when it is gone, and nothing else for that."""
        ...

    def delete(self, name: str) -> bool | None:
        """Delete a payload; False when it was gone already, of which nobody has to know."""
        ...

    def of(self, queue: str) -> Iterator[Blob]:
        """All payloads of a queue."""
        ...


@checked
class DirectoryBlobs:
    """Payloads as files of a directory that all producers and workers share."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).absolute()

    def write(self, name: str, raw: bytes) -> None:
        """Write a file; nobody ever sees a part of it."""
        self._check_root()
        place = self._place(name)
        place.parent.mkdir(parents=True, exist_ok=True)
        unfinished = place.with_name(f"{uuid.uuid4().hex}{_UNFINISHED}")
        try:
            with unfinished.open("wb") as file:
                file.write(raw)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(place)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise

    def read(self, name: str) -> bytes:
        """Read a file."""
        try:
            return self._place(name).read_bytes()
        except FileNotFoundError:
            # A directory that is not mounted has lost nothing.
            self._check_root()
            raise NotFound(f"{name} is gone from {self.root}") from None

    def delete(self, name: str) -> bool:
        """Delete a file; False when it was gone already."""
        try:
            self._place(name).unlink()
        except FileNotFoundError:
            return False
        return True

    def of(self, queue: str) -> Iterator[Blob]:
        """The files of a queue."""
        self._check_root()
        for file in self._place(f"{queue}/x").parent.glob("*"):
            try:
                written = file.stat().st_mtime
            except FileNotFoundError:
                continue
            yield Blob(f"{queue}/{file.name}", datetime.fromtimestamp(written, UTC))

    def _check_root(self) -> None:
        if not self.root.is_dir():
            raise NotADirectoryError(
                f"the directory of payloads {self.root} is not there: mount it, or make it"
            )

    def _place(self, name: str) -> Path:
        queue, _, id = name.partition("/")
        # A name comes from the store, and must not lead anywhere else.
        if any(part in ("", ".", "..") or "/" in part or "\0" in part for part in (queue, id)):
            raise InvalidOption(f"{name!r} is no name of a payload")
        return self.root / queue / id
