"""A directory as a stream of files: walked in constant memory, and never left."""

import os
import stat
import time
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeAlias

import msgspec

from waystation.core.errors import InvalidInput, InvalidOption

from .globs import Globs


class ScanOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which files of a directory are wanted."""

    scan_dir: str = "./data"
    include_globs: tuple[str, ...] = ("**/*",)
    exclude_globs: tuple[str, ...] = ("**/*.tmp", "**/.DS_Store")
    settle_s: float = 2.0
    """A file that changed less than this long ago may still be being written."""


class Skip(StrEnum):
    """Why something in the directory is not put in line."""

    EXCLUDED = "excluded"
    FRESH = "fresh"
    OUTSIDE = "outside"
    SPECIAL = "special"
    UNREADABLE = "unreadable"
    VANISHED = "vanished"


class Entries(Protocol):
    """What `os.scandir` gives: entries one by one, until it is closed."""

    def __next__(self) -> "os.DirEntry[str]":
        """The next entry."""
        ...

    def __iter__(self) -> "Entries":
        """Itself."""
        ...

    def close(self) -> None:
        """Let go of the directory."""
        ...


class Found(NamedTuple):
    """One file as it was seen."""

    path: str
    size: int
    mtime_ns: int


def root_of(options: ScanOptions) -> str:
    """The directory to walk, without links in its name."""
    root = os.path.realpath(options.scan_dir)
    if not os.path.isdir(root):
        raise InvalidOption(f"scan_dir must be a directory, got {options.scan_dir!r}")
    return root


PathLike: TypeAlias = "str | bytes | os.PathLike[str] | os.PathLike[bytes]"
"""How a path may be given."""


def looked_at(path: PathLike) -> Found:
    """One file that somebody names, by its absolute path; InvalidInput when it is none."""
    if not isinstance(path, str | bytes | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"a path must be text or a Path, got {path!r}")
    if not (name := os.fsdecode(path)):
        raise InvalidInput("a path must not be empty")
    absolute = os.path.abspath(name)
    try:
        facts = os.stat(absolute)
    except OSError as error:
        raise InvalidInput(f"a file must be there, got {name!r} ({error.strerror})") from None
    except ValueError as error:
        raise InvalidInput(f"a path must be one that a file can have, got {name!r}") from error
    if not stat.S_ISREG(facts.st_mode):
        raise InvalidInput(f"only files can be put in line, got {name!r}, which is none")
    return Found(absolute, facts.st_size, facts.st_mtime_ns)


class Walk:
    """Walks one directory; iterating gives files and, for what is left out, the reason."""

    def __init__(self, options: ScanOptions, *, now_ns: int | None = None) -> None:
        self._root = root_of(options)
        self._include = Globs(options.include_globs)
        self._exclude = Globs(options.exclude_globs)
        self._settle_ns = round(options.settle_s * 1e9)
        self._now_ns = now_ns

    def __iter__(self) -> Iterator[Found | Skip]:
        return self.under(self._root)

    def under(self, directory: str) -> Iterator[Found | Skip]:
        """Walk one directory of the tree, and what is in it."""
        return self._walk(directory, deep=True)

    def directly_in(self, directory: str) -> Iterator[Found | Skip]:
        """Look at the files of one directory, and leave its own directories to others."""
        return self._walk(directory, deep=False)

    def _walk(self, directory: str, *, deep: bool) -> Iterator[Found | Skip]:
        entered: list[Entries] = []
        try:
            yield from _enter(directory, entered)
            while entered:
                entry = _next(entered[-1])
                if entry is None or isinstance(entry, Skip):
                    entered.pop().close()
                    if entry:
                        yield entry
                elif is_directory(entry):
                    if deep:
                        yield from _enter(entry.path, entered)
                else:
                    yield self._file(entry)
        finally:
            for entries in entered:
                entries.close()

    def _file(self, entry: "os.DirEntry[str]") -> Found | Skip:
        inner = os.path.relpath(entry.path, self._root)
        if inner not in self._include or inner in self._exclude:
            return Skip.EXCLUDED
        try:
            if entry.is_symlink() and not self._stays_inside(entry.path):
                return Skip.OUTSIDE
            facts = entry.stat()
        except FileNotFoundError:
            return Skip.VANISHED
        except OSError:
            return Skip.UNREADABLE
        if not stat.S_ISREG(facts.st_mode):
            return Skip.SPECIAL
        if self._is_fresh(facts.st_mtime_ns):
            return Skip.FRESH
        return Found(entry.path, facts.st_size, facts.st_mtime_ns)

    def _stays_inside(self, link: str) -> bool:
        target = os.path.realpath(link)
        return os.path.commonpath((self._root, target)) == self._root

    def _is_fresh(self, mtime_ns: int) -> bool:
        now_ns = time.time_ns() if self._now_ns is None else self._now_ns
        # A time far in the future is a wrong clock, not a file that is being written.
        return abs(now_ns - mtime_ns) < self._settle_ns


def _enter(directory: str, entered: list[Entries]) -> Iterator[Skip]:
    try:
        entered.append(os.scandir(directory))
    except FileNotFoundError:
        yield Skip.VANISHED
    except OSError:
        yield Skip.UNREADABLE


def _next(entries: Entries) -> "os.DirEntry[str] | Skip | None":
    try:
        return next(entries, None)
    except OSError:
        return Skip.UNREADABLE


def is_directory(entry: "os.DirEntry[str]") -> bool:
    """Whether a walk goes into it."""
    # A link to a directory is not followed: it may lead out of the tree, or round in it.
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False
