"""Hours whose answers are older than what silver holds: noted before silver changes."""

import datetime as dt
from typing import Any, NamedTuple

import msgspec

from waystation.pipeline.history import Hours
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import fs

_NOTE = ".json"


class Pending(NamedTuple):
    """What the answers still lack."""

    hours: Hours
    notes: list[str]
    """Where that is noted."""


def note(root: str, version: int, hours: Hours) -> None:
    """Note hours that a fold changes."""
    files, folder = _folder(root)
    files.create_dir(folder, recursive=True)
    # Renamed into place: half a note would stand in everybody's way.
    fresh = f"{folder}/{version:020}.new"
    with files.open_output_stream(fresh) as out:
        out.write(msgspec.json.encode(hours.starts))
    files.move(fresh, f"{folder}/{version:020}{_NOTE}")


def read(root: str) -> Pending:
    """All that is noted."""
    files, folder = _folder(root)
    selector = fs.FileSelector(folder, allow_not_found=True)
    found = files.get_file_info(selector)
    notes = sorted(each.path for each in found if each.path.endswith(_NOTE))
    hours: set[dt.datetime] = set()
    for name in notes:
        with files.open_input_stream(name) as note:
            hours |= set(msgspec.json.decode(note.read(), type=list[dt.datetime]))
    return Pending(Hours(tuple(sorted(hours))), notes)


def settle(root: str, pending: Pending) -> None:
    """The answers hold it now."""
    files, _ = _folder(root)
    for name in pending.notes:
        files.delete_file(name)


def _folder(root: str) -> tuple[Any, str]:
    return delta.filesystem(f"{root}/silver/_pending")
