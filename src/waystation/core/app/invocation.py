"""One run of the command line: its global options, and the sections it may load."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec
import typer

if TYPE_CHECKING:
    from waystation.core.settings.section import Section


class Invocation(msgspec.Struct):
    """One run of the command line; the root fills it in and every command may read it."""

    sections: "Callable[[], Mapping[str, type[Section]]]" = dict
    """Imports every section of the settings, which only commands that load them need."""
    config: Path | None = None
    debug: bool = False


def of(context: typer.Context) -> Invocation:
    """Find the invocation that a command belongs to."""
    return cast(Invocation, context.obj)
