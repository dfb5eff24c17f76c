"""The store that the settings name: the same for the commands and for a program's own code."""

import os
from collections.abc import Mapping
from pathlib import Path

from waystation.core.errors import InvalidSetting
from waystation.core.settings.sources import PREFIX, read_environment, read_file

FILE = "waystation.yaml"
FILE_VARIABLE = PREFIX + "CONFIG"


def file_of(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The settings file that the environment names, if it names one."""
    return Path(name) if (name := environ.get(FILE_VARIABLE)) else None


def written(name: str, *, environ: Mapping[str, str] = os.environ) -> tuple[str, str] | None:
    """What a key of the section `store` is set to, and where; the environment wins."""
    entries = [*(read_file(file_of(environ) or Path(FILE)) or []), *read_environment(environ)]
    found = None
    for entry in entries:
        if entry.key == ("store", name) and entry.value is not None:
            if not isinstance(entry.value, str):
                raise InvalidSetting(
                    f"store.{name} ({entry.origin}) wants a text, got a collection"
                )
            found = entry.value, entry.origin
    return found
