"""The files line's own configuration file, with the plain names of its environment."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from pydantic import ValidationError

from waystation.core.settings.complaints import complaint
from waystation.core.settings.load import DEFAULT, Shown, tree
from waystation.core.settings.sources import Entry, Key, read_environment, read_file
from waystation.core.settings.store import FILE, file_of
from waystation.core.settings.table import table
from waystation.files.settings import FilesSettings

SECTION = "files"


class LoadedFiles(msgspec.Struct, frozen=True):
    """The settings in force and where each was written."""

    settings: FilesSettings
    origins: Mapping[Key, str]
    missing: Path | None = None
    """The file that was asked for but is not there, so that the defaults count."""

    def named(self, *key: str) -> str:
        """A setting as an error names it: where it was written stands behind it."""
        origin = self.origins.get(key)
        return f"{'.'.join(key)} ({origin})" if origin else ".".join(key)

    def shown(self) -> Iterator[Shown]:
        """Every setting as it may be printed."""
        for setting in table(FilesSettings):
            value = setting.shown_in(self.settings)
            yield Shown(setting.name, value, self.origins.get(setting.key, DEFAULT))


def load_files(file: Path | None = None, *, environ: Mapping[str, str] = os.environ) -> LoadedFiles:
    """Read the file, or else the section `files` of waystation's own; the environment wins."""
    written = read_file(file) if file else _section(environ)
    entries = [*(written or []), *_plain_variables(environ)]
    origins = {entry.key: entry.origin for entry in entries}
    try:
        settings = FilesSettings.model_validate(tree(entries))
    except ValidationError as error:
        raise complaint(error, origins, FilesSettings) from None
    return LoadedFiles(settings, origins, missing=file if written is None else None)


def _section(environ: Mapping[str, str]) -> list[Entry]:
    general = read_file(file_of(environ) or Path(FILE)) or []
    return [
        Entry(entry.key[1:], entry.value, entry.origin)
        for entry in [*general, *read_environment(environ)]
        if entry.key[0] == SECTION and len(entry.key) > 1
    ]


def _plain_variables(environ: Mapping[str, str]) -> Iterator[Entry]:
    """`WORKER_COUNT` sets `worker.count`; what has no section keeps its longer name only."""
    for setting in table(FilesSettings):
        if len(setting.key) < 2:
            continue
        for between in ("_", "__"):
            name = between.join(setting.key).upper()
            if text := environ.get(name):
                yield Entry(setting.key, text, name)
