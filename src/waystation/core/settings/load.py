"""The loader of the settings: a file and the environment become checked sections.

The environment wins over the file. The loader knows no section: it is given those that may be set.
Commands and a program's own code use the same loader, so both find the same store.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from waystation.core.errors import InvalidSetting
from waystation.core.settings.section import (
    Inherits,
    Row,
    Section,
    rows,
    section_at,
    settings,
    without_secrets,
)
from waystation.core.settings.sources import (
    PREFIX,
    Entry,
    Key,
    Value,
    printable,
    read_environment,
    read_file,
    variable_of,
    without_service_links,
)
from waystation.core.settings.values import Problem, Refused, Unknown, Wrong, build

S = TypeVar("S", bound=Section)

Sections = Mapping[str, type[Section]]

FILE = "waystation.yaml"
FILE_VARIABLE = PREFIX + "CONFIG"
DEFAULT = "default"


class ShownSetting(msgspec.Struct, frozen=True):
    """One setting in force; a secret is masked."""

    name: str
    value: str
    origin: str


class Settings(msgspec.Struct, frozen=True):
    """The settings in force and where each was written; a section is found by its type."""

    top: Section
    entries: Sequence[Entry] = ()
    """What was written, and where."""
    missing: Path | None = None
    """The file that was asked for and does not exist, so that the defaults apply."""

    def __getitem__(self, kind: type[S]) -> S:
        return next(each for each in self._sections() if type(each) is kind)

    def changed(self, entries: Iterable[Entry]) -> "Settings":
        """The settings with what comes later, such as the options of a command, checked anew."""
        return checked(type(self.top), [*self.entries, *entries])

    @property
    def origins(self) -> Mapping[Key, str]:
        """Where each setting was written."""
        return {entry.key: entry.origin for entry in self.entries}

    def named(self, *key: str) -> str:
        """A setting as an error names it: with the place where it was written."""
        origin = self.origins.get(key)
        return f"{'.'.join(key)} ({origin})" if origin else ".".join(key)

    def shown(self) -> Iterator[ShownSetting]:
        """Every setting with its value, as it may be printed, and where that was written."""
        origins = self.origins
        for row in rows(type(self.top)):
            yield ShownSetting(row.name, row.shown_in(self.top), origins.get(row.key, DEFAULT))

    def _sections(self) -> Iterator[Any]:
        return (getattr(self.top, name) for name in self.top.__struct_fields__)


def load(
    sections: Sections,
    file: Path | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    others: bool = False,
) -> Settings:
    """Read the settings, or raise an error that says in one line what is wrong with them.

    `others` leaves alone what sections say that were not asked for.
    """
    top, environ = together(sections), without_service_links(environ)
    named = file or file_of(environ)
    written = read_file(named or Path(FILE))
    entries = [*(written or []), *read_environment(environ)]
    if others:
        entries = [each for each in entries if _is_meant(each.key[0], sections)]
    found = checked(top, entries, environ)
    return msgspec.structs.replace(found, missing=named if written is None else None)


def text_of(
    key: Key, file: Path | None = None, *, environ: Mapping[str, str] = os.environ
) -> str | None:
    """The text of one setting, read without its section; None where nothing sets it.

    Refuses a list, which its section would refuse.
    """
    entries = [
        *(read_file(file or file_of(environ) or Path(FILE)) or ()),
        *read_environment(environ),
    ]
    found = [each for each in entries if each.key == key]
    if found and isinstance(found[-1].value, list):
        raise InvalidSetting(f"{'.'.join(key)} ({found[-1].origin}) wants text, got a list")
    return found[-1].value if found and isinstance(found[-1].value, str) else None


def is_set(key: Key, file: Path | None = None, *, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether anything sets this setting, or a part of it."""
    entries = [
        *(read_file(file or file_of(environ) or Path(FILE)) or ()),
        *read_environment(environ),
    ]
    return any(each.key[: len(key)] == key for each in entries)


def checked(
    top: type[Section], entries: Sequence[Entry], environ: Mapping[str, str] | None = None
) -> Settings:
    """The settings that these entries make, the later ones first of all."""
    _refuse_single_underscores(rows(top), environ or {})
    given = {entry.key for entry in entries}
    entries = [*(each for each in _inherited(top, entries) if each.key not in given), *entries]
    origins = {entry.key: entry.origin for entry in entries}
    problems: list[Problem] = []
    found = build(top, _tree(entries), (), problems)
    if problems:
        # A section that inherits has the problems of its source once more.
        once = {each.about: each for each in reversed(problems)}
        raise _complaint(list(once.values())[::-1], origins, top)
    return Settings(found, entries)


def together(sections: Sections) -> type[Section]:
    """One struct of all sections."""
    fields = [(name, kind, kind()) for name, kind in sections.items()]
    return msgspec.defstruct("Settings", fields, frozen=True, kw_only=True)


def file_of(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The settings file that the environment names, if it names one."""
    return Path(name) if (name := environ.get(FILE_VARIABLE)) else None


def _is_meant(name: str, sections: Sections) -> bool:
    # A slip in the name of a section must not hide it.
    return name in sections or bool(get_close_matches(name, sections, cutoff=0.75))


def _inherited(top: type[Section], entries: Iterable[Entry]) -> Iterator[Entry]:
    entries = list(entries)
    for key, section, source in _inheriting(top, ()):
        names = {each.name for each in settings(section)}
        for entry in entries:
            above, *rest = entry.key
            if above == source and rest and rest[0] in names:
                yield Entry((*key, *rest), entry.value, entry.origin)


def _inheriting(section: type[Section], above: Key) -> Iterator[tuple[Key, type[Section], str]]:
    for each in settings(section):
        if each.section is None:
            continue
        key = (*above, each.name)
        for mark in each.marks:
            if isinstance(mark, Inherits):
                yield key, each.section, mark.section
        yield from _inheriting(each.section, key)


def _refuse_single_underscores(rows: Iterable[Row], environ: Mapping[str, str]) -> None:
    for row in rows:
        meant = variable_of(row.key)
        if (slip := PREFIX + "_".join(row.key).upper()) in environ:
            raise InvalidSetting(f"{slip} is not a setting; did you mean {meant}?")


def _tree(entries: Iterable[Entry]) -> dict[str, Value]:
    top: dict[str, Value] = {}
    for entry in entries:
        *above, name = entry.key
        branch: Value = top
        for part in above:
            if branch.get(part) is None:
                branch[part] = {}
            branch = branch[part]
            if not isinstance(branch, dict):
                break  # the section says what is wrong with it
        else:
            is_section = isinstance(entry.value, dict)
            # A section that is begun, or left empty, keeps what was inherited.
            if not (isinstance(branch.get(name), dict) and (is_section or entry.value is None)):
                branch[name] = {} if is_section else entry.value
    return top


_LONGEST_ECHO = 60


def _complaint(
    problems: Sequence[Problem], origins: Mapping[Key, str], top: type[Section]
) -> InvalidSetting:
    """The one line that a person reads."""
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return InvalidSetting(_sentence(problems[0], origins, top) + more)


def _sentence(problem: Problem, origins: Mapping[Key, str], top: type[Section]) -> str:
    match problem:
        case Unknown():
            name = _named(problem.key, origins)
            return f"{name} is not a setting; {_advice(problem.key, top)}"
        case Refused():
            return _refusal(problem, origins, top)
        case Wrong():
            name = _named(problem.key, origins)
            return f"{name} wants {problem.wanted}, got {_echo(problem.key, problem.value, top)}"


def _refusal(problem: Refused, origins: Mapping[Key, str], top: type[Section]) -> str:
    said, got, value = printable(problem.message).rpartition(", got ")
    if "://" in value:
        value = repr(without_secrets(value.strip("'\"")))
    field, _, rest = f"{said}{got}{value}".partition(" ")
    section = section_at(top, problem.key)
    names = {each.field: each.name for each in settings(section)} if section else {}
    # A part of a setting may be named, too, such as queues.high.
    head, *parts = field.split(".")
    if head not in names:
        return f"{_named(problem.key, origins)}: {field} {rest}"
    return f"{_named((*problem.key, names[head], *parts), origins)} {rest}"


def _named(key: Key, origins: Mapping[Key, str]) -> str:
    # An item of a list stands where the list does, an unknown section where its first key does.
    above = (origins.get(key[:length]) for length in range(len(key), 0, -1))
    below = (origin for other, origin in origins.items() if other[: len(key)] == key)
    place = next(filter(None, chain(above, below)), None)
    return printable(".".join(key)) + (f" ({place})" if place else "")


def _advice(key: Key, top: type[Section]) -> str:
    *above, name = key
    section = section_at(top, tuple(above))
    names = [each.name for each in settings(section)] if section else []
    elsewhere = [row.name for row in rows(top) if row.key[-1] == name]
    near = elsewhere or [".".join((*above, near)) for near in get_close_matches(name, names, n=1)]
    if near:
        return f"did you mean {near[0]}?"
    return f"{'.'.join(above) or 'the top'} has {', '.join(names)}"


def _echo(key: Key, value: Value, top: type[Section]) -> str:
    match value:
        case None:
            return "nothing"
        case dict():
            return "keys with values"
        case list():
            return "a list"
        case _ if section_at(top, key):
            return "a single value"
        case _:
            secret = any(row.setting.secret for row in rows(top) if row.key == key)
            text = without_secrets(value) if secret or "://" in value else value
            return repr(text if len(text) <= _LONGEST_ECHO else text[:_LONGEST_ECHO] + "…")
