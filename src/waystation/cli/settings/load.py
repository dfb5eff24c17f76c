"""From a file and the environment to one checked model; the environment wins."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
from pydantic import ValidationError

from waystation.cli.settings.complaints import complaint
from waystation.cli.settings.sections import Settings
from waystation.cli.settings.table import table
from waystation.core.errors import InvalidSetting
from waystation.core.settings.sources import (
    PREFIX,
    Entry,
    Key,
    Value,
    read_environment,
    read_file,
    variable_of,
)
from waystation.core.settings.store import FILE, file_of


class Loaded(msgspec.Struct, frozen=True):
    """The settings in force and where each was written."""

    settings: Settings
    origins: Mapping[Key, str]
    missing: Path | None = None
    """The file that was asked for but is not there, so that its defaults count."""


def load(file: Path | None = None, *, environ: Mapping[str, str] = os.environ) -> Loaded:
    """Read the settings, or say in one line what is wrong with them."""
    _refuse_single_underscores(environ)
    named = file or file_of(environ)
    written = read_file(named or Path(FILE))
    entries = [*(written or []), *read_environment(environ)]
    origins = {entry.key: entry.origin for entry in entries}
    try:
        settings = Settings.model_validate(tree(entries))
    except ValidationError as error:
        raise complaint(error, origins) from None
    return Loaded(settings, origins, missing=named if written is None else None)


def _refuse_single_underscores(environ: Mapping[str, str]) -> None:
    # Other names are left alone: Kubernetes sets WAYSTATION_PORT and the like on its own.
    for setting in table():
        meant = variable_of(setting.key)
        if (slip := PREFIX + "_".join(setting.key).upper()) in environ:
            raise InvalidSetting(f"{slip} is not a setting; did you mean {meant}?")


def tree(entries: Iterable[Entry]) -> dict[str, Value]:
    """Put what was written into the shape that the model reads."""
    top: dict[str, Value] = {}
    for entry in entries:
        *above, name = entry.key
        branch: Value = top
        for part in above:
            if branch.get(part) is None:
                branch[part] = {}
            branch = branch[part]
            if not isinstance(branch, dict):
                break  # the model says what is wrong with it
        else:
            branch[name] = dict(entry.value) if isinstance(entry.value, dict) else entry.value
    return top
