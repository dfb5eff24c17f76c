"""The loader of the settings: a file and the environment become checked sections.

The environment wins over the file. The loader knows no section: it is given those that may be set.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec
from pydantic import ValidationError, create_model

from waystation.core.errors import InvalidSetting
from waystation.core.settings.complaints import complaint
from waystation.core.settings.section import Section
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
from waystation.core.settings.table import Setting, table

S = TypeVar("S", bound=Section)

DEFAULT = "default"


class Shown(msgspec.Struct, frozen=True):
    """One setting in force; a secret is masked."""

    name: str
    value: str
    origin: str


class Settings(msgspec.Struct, frozen=True):
    """The settings in force and where each was written; a section is found by its type."""

    top: Section
    origins: Mapping[Key, str] = {}
    missing: Path | None = None
    """The file that was asked for and does not exist, so that the defaults count."""

    def __getitem__(self, kind: type[S]) -> S:
        for name in type(self.top).model_fields:
            section = getattr(self.top, name)
            if type(section) is kind:
                return section
        raise KeyError(kind)

    def replaced(self, section: Section) -> Self:
        """The same settings with another section of that type."""
        name = next(
            name
            for name, each in type(self.top).model_fields.items()
            if each.annotation is type(section)
        )
        return msgspec.structs.replace(self, top=self.top.model_copy(update={name: section}))

    def shown(self) -> Iterator[Shown]:
        """Every setting with its value, as it may be printed, and where that was written."""
        for setting in table(type(self.top)):
            value = setting.shown_in(self.top)
            yield Shown(setting.name, value, self.origins.get(setting.key, DEFAULT))


def load(
    sections: Mapping[str, type[Section]],
    file: Path | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
) -> Settings:
    """Read the settings, or raise an error that says in one line what is wrong with them."""
    top = model(sections)
    _refuse_single_underscores(table(top), environ)
    named = file or file_of(environ)
    written = read_file(named or Path(FILE))
    entries = [*(written or []), *read_environment(environ)]
    origins = {entry.key: entry.origin for entry in entries}
    try:
        settings = top.model_validate(tree(entries))
    except ValidationError as error:
        raise complaint(error, origins, top) from None
    return Settings(settings, origins, missing=named if written is None else None)


def model(sections: Mapping[str, type[Section]]) -> type[Section]:
    """One model of all sections."""
    fields: dict[str, Any] = {name: (kind, kind()) for name, kind in sections.items()}
    return create_model("Settings", __base__=Section, **fields)


def _refuse_single_underscores(settings: Iterable[Setting], environ: Mapping[str, str]) -> None:
    # Other names are left alone: Kubernetes sets WAYSTATION_PORT and the like on its own.
    for setting in settings:
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
