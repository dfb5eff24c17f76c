"""Sources of settings: a YAML file and the environment.

Scalars stay the text they were written as and the model decides what they mean, so `no` is a word
where a word is wanted and false where a yes or no is, and both sources follow the same rules.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from waystation.core.errors import InvalidSetting

if TYPE_CHECKING:
    from waystation.core.settings.page import Page

PREFIX = "WAYSTATION_"
NESTING = "__"

_SERVICE_LINK = re.compile("(tcp|udp|sctp)://")

Key: TypeAlias = tuple[str, ...]
Value: TypeAlias = "str | list[Value] | dict[str, Value] | None"


class Entry(msgspec.Struct, frozen=True):
    """One value and the place where it was written; a mapping is an empty one before its keys."""

    key: Key
    value: Value
    origin: str


def read_file(file: Path) -> list[Entry] | None:
    """Read what a YAML file sets, in its order; None when there is no such file."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidSetting(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidSetting(f"{file} wants UTF-8 text, got other bytes") from None
    return list(_page(str(file)).sections(text))


def read_environment(environ: Mapping[str, str]) -> list[Entry]:
    """Read what `WAYSTATION_SECTION__KEY` variables set; an empty one sets nothing."""
    return [
        Entry(key_of(name), text, printable(name))
        for name, text in sorted(environ.items())
        if name.startswith(PREFIX) and NESTING in name.removeprefix(PREFIX) and text
    ]


def without_service_links(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The environment without the variables that Kubernetes adds to a pod for each Service.

    A Service `waystation-room` becomes `WAYSTATION_ROOM_PORT=tcp://…` and others beside it, in
    every pod of its namespace.
    """
    links = [
        name
        for name, text in environ.items()
        if name.endswith("_PORT") and _SERVICE_LINK.match(text)
    ]
    starts = tuple(
        start for link in links for start in (f"{link}_", f"{link.removesuffix('PORT')}SERVICE_")
    )
    return {
        name: text
        for name, text in environ.items()
        if name not in links and (NESTING in name or not name.startswith(starts))
    }


def read_text(text: str) -> Value:
    """Read one value written as YAML."""
    return _page("the value").value(text)


def printable(text: str) -> str:
    """Keep a name on the line it is printed on."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def variable_of(key: Key) -> str:
    """The environment variable that sets this key."""
    return PREFIX + NESTING.join(key).upper()


def key_of(variable: str) -> Key:
    """The key that an environment variable sets."""
    return tuple(variable.removeprefix(PREFIX).lower().split(NESTING))


def _page(name: str) -> "Page":
    # The parser takes longer to import than all settings take to read, and many have no file.
    from waystation.core.settings.page import Page

    return Page(printable(name))
