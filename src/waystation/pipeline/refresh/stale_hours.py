"""Stale hours: hours whose gold tables are older than silver, recorded before silver changes."""

import datetime as dt
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from waystation.pipeline.storage.arrow import fs
from waystation.pipeline.storage.places import filesystem, is_remote

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Hours(msgspec.Struct, frozen=True):
    """Hours in which something happened, each by its start in UTC."""

    starts: tuple[dt.datetime, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.starts)

    @property
    def days(self) -> list[dt.date]:
        """The days of these hours and the days next to them, because clocks differ."""
        day = dt.timedelta(days=1)
        return sorted({hour.date() + step * day for hour in self.starts for step in (-1, 0, 1)})

    @property
    def dates(self) -> list[dt.date]:
        """The days of these hours."""
        return sorted({hour.date() for hour in self.starts})

    @property
    def bounds(self) -> tuple[dt.datetime, dt.datetime]:
        """The first instant of these hours, and the one after the last."""
        if not self.starts:
            return _EPOCH, _EPOCH
        return min(self.starts), max(self.starts) + dt.timedelta(hours=1)


_NOTE = ".json"
_DIGITS = 20
"""Of the version that the name of a note begins with."""


class StaleHours(NamedTuple):
    """The hours that gold tables must be refreshed for."""

    hours: Hours
    notes: list[str]
    """The files that record them."""


def record(root: str, version: int, hours: Hours, *, of: str = "") -> None:
    """Record hours that a fold changes, or the fold of one table."""
    files, folder = _folder(root)
    note = f"{folder}/{version:0{_DIGITS}}{of}{_NOTE}"
    # Renamed into place, so that nobody reads half a file; an object appears as a whole.
    is_object = is_remote(root)
    fresh = note if is_object else note.replace(_NOTE, ".new")
    if not is_object:
        files.create_dir(folder, recursive=True)
    with files.open_output_stream(fresh) as out:
        out.write(msgspec.json.encode(hours.starts))
    if not is_object:
        files.move(fresh, note)


def read(root: str, *, until: int) -> StaleHours:
    """The hours on record of all folds up to a version.

    Another driver records those of its fold before it changes silver: they are not stale yet.
    """
    files, folder = _folder(root)
    found = files.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    names = (each.base_name for each in found if each.path.endswith(_NOTE))
    notes = sorted(f"{folder}/{name}" for name in names if int(name[:_DIGITS]) <= until)
    hours: set[dt.datetime] = set()
    for name in notes:
        # One that another driver has deleted since was refreshed by it.
        with suppress(FileNotFoundError), files.open_input_stream(name) as note:
            hours |= set(msgspec.json.decode(note.read(), type=list[dt.datetime]))
    return StaleHours(Hours(tuple(sorted(hours))), notes)


def clear(root: str, stale: StaleHours) -> None:
    """Delete the records of hours that were refreshed."""
    files, _ = _folder(root)
    for name in stale.notes:
        with suppress(FileNotFoundError):
            files.delete_file(name)


def _folder(root: str) -> tuple[Any, str]:
    return filesystem(f"{root}/silver/_pending")
