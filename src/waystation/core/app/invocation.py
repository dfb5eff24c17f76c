"""One run of the command line: its global options, its settings, and how it fails: in one line."""

import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec
import typer

from waystation.core.errors import (
    START_THE_STORE,
    InvalidInput,
    InvalidSetting,
    StoreBusy,
    StoreUnreachable,
    StoreUnsuitable,
    WaystationError,
)

if TYPE_CHECKING:
    from waystation.core.settings.load import Settings
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


def loaded(context: typer.Context) -> "Settings":
    """Load the settings; a settings file that was asked for must exist."""
    current = of(context)
    return _load(current, current.sections())


def loaded_only(context: typer.Context, sections: "Mapping[str, type[Section]]") -> "Settings":
    """Load these sections; all sections together take longer to import than some commands run."""
    return _load(of(context), sections, others=True)


def _load(
    current: Invocation, sections: "Mapping[str, type[Section]]", *, others: bool = False
) -> "Settings":
    # Reading settings takes long to load, and help needs none.
    from waystation.core.settings.load import load

    found = load(sections, current.config, others=others)
    if found.missing:
        # Its defaults would be another store, on which everything looks well and nothing happens.
        raise InvalidSetting(f"there is no settings file {found.missing}")
    return found


FAILED = 1
REFUSED = 2
"""The command could not begin: its input, its settings or its store must change first."""
NO_JAVA = 5
"""The Java that Spark runs in ended or ran out of memory; starting again goes on from there."""
UNAVAILABLE = 69
"""The store is away, loading or full; the same command may succeed later."""


@contextmanager
def in_one_line(invocation: Invocation) -> Generator[None]:
    """End the process with one line instead of a traceback, unless that was asked for."""
    try:
        yield
    except Exception as error:
        if invocation.debug:
            raise
        print(f"waystation: {_sentence(error)}", file=sys.stderr)
        sys.exit(exit_code(error))


def exit_code(error: Exception) -> int:
    """The exit code that stands for an error."""
    match error:
        case StoreUnreachable() | StoreBusy():
            return UNAVAILABLE
        case InvalidInput() | StoreUnsuitable():
            return REFUSED
        case WaystationError() if error.code in ("JAVA_DIED", "HEAP_EXHAUSTED"):
            return NO_JAVA
        case _:
            return FAILED


def _sentence(error: Exception) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, StoreUnreachable):
        return f"{text.removesuffix('.')}; {START_THE_STORE}"
    if isinstance(error, WaystationError):
        return text
    kind = type(error).__name__
    return f"this should not happen ({kind}: {text}); --debug before the command shows where"
