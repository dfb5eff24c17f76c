"""The files product's own configuration file, with the plain names of its environment."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from waystation.core.settings.entries import Entry
from waystation.core.settings.load import FILE, Settings, checked, file_of
from waystation.core.settings.section import rows
from waystation.core.settings.sources import read_environment, read_file, without_service_links
from waystation.files.settings import FilesSettings

SECTION = "files"


class FilesFile(Settings, frozen=True):
    """The settings of the files product in force, and where each was written."""

    @property
    def settings(self) -> FilesSettings:
        """The sections."""
        assert isinstance(self.top, FilesSettings)  # noqa: S101
        return self.top


def load_files(file: Path | None = None, *, environ: Mapping[str, str] = os.environ) -> FilesFile:
    """Read the file, or else the section `files` of waystation's own; the environment wins."""
    environ = without_service_links(environ)
    written = read_file(file) if file else _section(environ)
    found = checked(FilesSettings, [*(written or []), *_plain_variables(environ)])
    return FilesFile(found.top, found.entries, missing=file if written is None else None)


def _section(environ: Mapping[str, str]) -> list[Entry]:
    general = read_file(file_of(environ) or Path(FILE)) or []
    return [
        Entry(entry.key[1:], entry.value, entry.origin)
        for entry in [*general, *read_environment(environ)]
        if entry.key[0] == SECTION and len(entry.key) > 1
    ]


def _plain_variables(environ: Mapping[str, str]) -> Iterator[Entry]:
    """`WORKER_COUNT` sets `worker.count`; what has no section keeps its longer name only."""
    for row in rows(FilesSettings):
        if len(row.key) < 2:
            continue
        for between in ("_", "__"):
            name = between.join(row.key).upper()
            if text := environ.get(name):
                yield Entry(row.key, text, name)
