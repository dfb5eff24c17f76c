"""Scanning: a directory as a stream of files, in constant memory, never leaving the tree."""

import os
import stat
import time
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeAlias, cast

import msgspec

from waystation.core.durations import Duration, seconds
from waystation.core.errors import InvalidInput, InvalidOption
from waystation.core.options import check_fields
from waystation.files.directory.globs import Globs

KNOWN_LIMIT = 1_000_000
"""Files remembered, about 70 bytes each; the store is asked for all beyond."""
KNOWN_AT_A_TIME = 1_000
_NO_HASH = -1
"""A value that `hash` never returns."""
MOST_UNSETTLED = 10_000
"""Files remembered that may still be written to."""
_SKEW_NS = 3_600 * 10**9
"""A share's clock may be so far from ours; what changed longer ago is at rest."""


class ScanOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The directory to scan, and which of its files are added."""

    scan_dir: str = "./data"
    """The directory."""
    include_globs: tuple[str, ...] = ("**/*",)
    """Patterns; a file that matches one of them is added."""
    exclude_globs: tuple[str, ...] = ("**/*.tmp", "**/.DS_Store")
    """Patterns; a file that matches one of them is left out."""
    settle: Duration = 2.0
    """A file that changed less than this long ago may still be written to, and has to wait."""

    def __post_init__(self) -> None:
        check_fields(self)
        seconds(self.settle, "settle")


class Skip(StrEnum):
    """Why an entry of the directory is not added."""

    EXCLUDED = "excluded"
    FRESH = "fresh"
    OUTSIDE = "outside"
    SPECIAL = "special"
    UNREADABLE = "unreadable"
    VANISHED = "vanished"


class Entries(Protocol):
    """The iterator of `os.scandir`."""

    def __next__(self) -> "os.DirEntry[str]":
        """The next entry."""
        ...

    def __iter__(self) -> "Entries":
        """Itself."""
        ...

    def close(self) -> None:
        """Close the directory."""
        ...


class ScannedFile(NamedTuple):
    """One file, as the scan saw it."""

    path: str
    size: int
    mtime_ns: int


class Known(NamedTuple):
    """Files that the store is known to have."""

    hashes: list[int]


def root_of(options: ScanOptions) -> str:
    """The directory to walk, with links in its path resolved."""
    root = os.path.realpath(options.scan_dir)
    if not os.path.isdir(root):
        raise InvalidOption(f"scan_dir must be a directory, got {options.scan_dir!r}")
    return root


PathLike: TypeAlias = "str | bytes | os.PathLike[str] | os.PathLike[bytes]"
"""A path, in any form that `open` takes."""


def examine(path: PathLike) -> ScannedFile:
    """Look at one file that a program names; InvalidInput when it is no regular file."""
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
        raise InvalidInput(f"a path must be of a regular file, got {name!r}")
    return ScannedFile(absolute, facts.st_size, facts.st_mtime_ns)


class KnownFiles:
    """Hashes of files that the store is known to have, so that it is not asked for each again."""

    def __init__(self, limit: int = KNOWN_LIMIT) -> None:
        self._limit = limit
        self._before: set[int] = set()
        self._now: set[int] = set()

    @property
    def hashes(self) -> tuple[set[int], set[int]]:
        """Those of earlier passes, and of this one; both stay the same sets until its end."""
        return self._before, self._now

    def add(self, files: Collection[int]) -> None:
        """Remember these, while there is room."""
        if len(self._now) + len(files) <= self._limit:
            self._now.update(files)

    def begin_pass(self) -> None:
        """Begin to look at every file."""
        self._before |= self._now
        self._now = set()

    def end_pass(self) -> None:
        """Forget files that this pass has not seen: they are gone, or have changed."""
        self._before = set()

    def forget(self) -> None:
        """Forget all, because the store may have forgotten, too."""
        self._before, self._now = set(), set()


class Walk:
    """Walks one directory; yields files and, for what is left out, the reason."""

    def __init__(
        self,
        options: ScanOptions,
        *,
        now_ns: int | None = None,
        entering: Callable[[str], None] | None = None,
        open_files: Container[str] = (),
        timer: Callable[[], float] | None = None,
    ) -> None:
        """`open_files` are being written to, and left out; with a `timer`, a file that may have
        changed lately must be found the same twice, so that no clock decides alone."""
        self.root = root_of(options)
        self._above = self.root.rstrip("/") + "/"
        self._include = Globs(options.include_globs)
        self._exclude = Globs(options.exclude_globs)
        self._settle_ns = round(seconds(options.settle) * 1e9)
        self._now_ns = now_ns
        self._entering = entering
        self._unsettled: set[str] = set()
        self._open_files = open_files
        self._timer = timer
        self._seen: dict[str, tuple[int, int, float]] = {}

    def __iter__(self) -> Iterator[ScannedFile | Skip]:
        return self.under(self.root)

    def under(self, directory: str) -> Iterator[ScannedFile | Skip]:
        """Walk one directory of the tree and its subdirectories."""
        return self._walk(directory, deep=True)

    def directly_in(self, directory: str) -> Iterator[ScannedFile | Skip]:
        """Walk one directory of the tree without its subdirectories."""
        return self._walk(directory, deep=False)

    def named(self, paths: Iterable[str]) -> Iterator[ScannedFile | Skip]:
        """Look at files by their paths, and at what is in directories; what is gone is left out."""
        for path in paths:
            try:
                facts = os.lstat(path)
            except OSError:
                continue
            is_directory = stat.S_ISDIR(facts.st_mode)
            directory = path if is_directory else os.path.dirname(path)
            if os.path.realpath(directory) != directory:
                # A directory of the tree was replaced by a link, which may lead out of it.
                yield Skip.OUTSIDE
            elif is_directory:
                yield from self.under(path)
            else:
                yield self._classified(_Named(path, facts))

    def take_unsettled(self) -> set[str]:
        """Take the paths to look at again, because they may still be written to."""
        unsettled, self._unsettled = self._unsettled, set()
        # Walking the whole tree again needs less memory than so many paths.
        return unsettled if len(unsettled) <= MOST_UNSETTLED else {self.root}

    def _walk(self, directory: str, *, deep: bool) -> Iterator[ScannedFile | Skip]:
        entered: list[Entries] = []
        try:
            yield from self._enter(directory, entered)
            while entered:
                entry = _next(entered[-1])
                if entry is None or isinstance(entry, Skip):
                    entered.pop().close()
                    if entry:
                        yield entry
                elif is_directory(entry):
                    if deep:
                        yield from self._enter(entry.path, entered)
                else:
                    yield self._classified(entry)
        finally:
            for entries in entered:
                entries.close()

    def unknown(self, known_files: KnownFiles) -> Iterator[ScannedFile | Skip | Known]:
        """Walk the whole tree; files that the store is known to have come as hashes, in batches.

        Most files of a watched tree are known, so their path through here is short: patterns and
        links were checked when they became known. It makes no calls, because two of them cost as
        much as the rest of the loop.
        """
        before, now = known_files.hashes
        entered: list[Entries] = []
        known: list[int] = []
        try:
            yield from self._enter(self.root, entered)
            while entered:
                try:
                    # A directory interrupts the one it is in, which goes on where it was.
                    for entry in entered[-1]:
                        try:
                            if entry.is_dir(follow_symlinks=False):
                                yield from self._enter(entry.path, entered)
                                break
                            facts = entry.stat()
                            number = hash((entry.path, facts.st_size, facts.st_mtime_ns))
                        except OSError:
                            number = _NO_HASH
                        if number in before or number in now:
                            known.append(number)
                            if len(known) == KNOWN_AT_A_TIME:
                                yield Known(known)
                                known = []
                        else:
                            yield self._classified(entry)
                    else:
                        entered.pop().close()
                except OSError:
                    entered.pop().close()
                    yield Skip.UNREADABLE
            if known:
                yield Known(known)
        finally:
            for entries in entered:
                entries.close()

    def _enter(self, directory: str, entered: list[Entries]) -> Iterator[Skip]:
        if self._entering:
            self._entering(directory)
        try:
            entered.append(os.scandir(directory))
        except FileNotFoundError:
            yield Skip.VANISHED
        except OSError:
            yield Skip.UNREADABLE

    def _classified(self, entry: "os.DirEntry[str] | _Named") -> ScannedFile | Skip:
        path = entry.path
        inner = path[len(self._above) :]
        if inner not in self._include or inner in self._exclude:
            return Skip.EXCLUDED
        try:
            if entry.is_symlink() and not self._stays_inside(path):
                return Skip.OUTSIDE
            facts = entry.stat()
        except FileNotFoundError:
            return Skip.VANISHED
        except OSError:
            return Skip.UNREADABLE
        if not stat.S_ISREG(facts.st_mode):
            return Skip.SPECIAL
        if self._is_fresh(path, facts):
            if len(self._unsettled) <= MOST_UNSETTLED:
                self._unsettled.add(path)
            return Skip.FRESH
        return ScannedFile(path, facts.st_size, facts.st_mtime_ns)

    def _stays_inside(self, link: str) -> bool:
        target = os.path.realpath(link)
        return os.path.commonpath((self.root, target)) == self.root

    def _is_fresh(self, path: str, facts: os.stat_result) -> bool:
        now_ns = time.time_ns() if self._now_ns is None else self._now_ns
        # A time far in the future is a wrong clock, not a file that is being written.
        age_ns = abs(now_ns - facts.st_mtime_ns)
        rests = self._timer is None or age_ns >= _SKEW_NS or self._rests(path, facts)
        return age_ns < self._settle_ns or path in self._open_files or not rests

    def _rests(self, path: str, facts: os.stat_result) -> bool:
        """Whether it was found the same before, long enough ago."""
        now_s, settle_s = cast(Callable[[], float], self._timer)(), self._settle_ns / 1e9
        size, mtime_ns, since_s = self._seen.pop(path, (-1, -1, now_s))
        is_same = (size, mtime_ns) == (facts.st_size, facts.st_mtime_ns)
        since_s = since_s if is_same else now_s
        if now_s - since_s >= settle_s or len(self._seen) >= MOST_UNSETTLED:
            return True
        self._seen[path] = (facts.st_size, facts.st_mtime_ns, since_s)
        return False


class _Named:
    """A path with the interface of a directory entry."""

    def __init__(self, path: str, facts: os.stat_result) -> None:
        self.path = path
        self._facts = facts

    def is_symlink(self) -> bool:
        return stat.S_ISLNK(self._facts.st_mode)

    def stat(self) -> os.stat_result:
        return os.stat(self.path) if self.is_symlink() else self._facts


def _next(entries: Entries) -> "os.DirEntry[str] | Skip | None":
    try:
        return next(entries, None)
    except OSError:
        return Skip.UNREADABLE


def is_directory(entry: "os.DirEntry[str]") -> bool:
    """True when a walk enters it."""
    # A link to a directory is not followed: it may lead out of the tree, or round in it.
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False
