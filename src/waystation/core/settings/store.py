"""The store that the settings name: the same for the commands and for a program's own code."""

import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

from waystation.core.errors import InvalidSetting
from waystation.core.settings.sources import PREFIX, Entry, read_environment, read_file

FILE = "waystation.yaml"
FILE_VARIABLE = PREFIX + "CONFIG"
SECTION = "store"
KEYS = (
    "url",
    "connect_timeout",
    "call_timeout",
    "wait",
    "max_connections",
    "durability",
    "replica_timeout",
)
"""What the section may say; a slip in it would send jobs to a store that nobody meant."""


def file_of(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The settings file that the environment names, if it names one."""
    return Path(name) if (name := environ.get(FILE_VARIABLE)) else None


def written(name: str, *, environ: Mapping[str, str] = os.environ) -> tuple[str, str] | None:
    """What a key of the section `store` is set to, and where; the environment wins."""
    named = file_of(environ)
    in_file = read_file(named or Path(FILE))
    if named and in_file is None:
        raise InvalidSetting(f"{FILE_VARIABLE} names {named}, and there is no such file")
    entries = [*(in_file or []), *read_environment(environ)]
    found = None
    for entry in entries:
        _refuse_slip(entry)
        if entry.key == ("store", name) and entry.value is not None:
            if not isinstance(entry.value, str):
                raise InvalidSetting(
                    f"store.{name} ({entry.origin}) wants a text, got a collection"
                )
            found = entry.value, entry.origin
    return found


def _refuse_slip(entry: Entry) -> None:
    section, *rest = entry.key
    slip, meant = section, get_close_matches(section, [SECTION], cutoff=0.75)
    if section == SECTION:
        if not rest or rest[0] in KEYS:
            return
        near = get_close_matches(rest[0], KEYS, n=1)
        slip = f"{SECTION}.{rest[0]}"
        meant = [f"{SECTION}.{key}" for key in near] or [f"one of {', '.join(KEYS)}"]
    if meant:
        raise InvalidSetting(f"{slip} ({entry.origin}) is not a setting; did you mean {meant[0]}?")
