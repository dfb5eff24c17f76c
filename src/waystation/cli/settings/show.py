"""The settings in force, as they may be printed."""

from collections.abc import Iterator

import msgspec

from waystation.cli.settings.load import Loaded
from waystation.cli.settings.table import table

DEFAULT = "default"


class Shown(msgspec.Struct, frozen=True):
    """One setting in force; a secret is masked."""

    name: str
    value: str
    origin: str


def show(loaded: Loaded) -> Iterator[Shown]:
    """Give every setting with its value and where that was written."""
    for setting in table():
        value = setting.shown_in(loaded.settings)
        yield Shown(setting.name, value, loaded.origins.get(setting.key, DEFAULT))
