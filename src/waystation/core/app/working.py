"""What every `work` command shares: its options, and the handler that it names."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

import typer

from waystation.core.app.imports import import_module
from waystation.core.errors import InvalidOption
from waystation.core.options import nearest

if TYPE_CHECKING:
    from waystation.core.settings.load import Settings
    from waystation.core.settings.sources import Entry, Key, Value

JobHandler: TypeAlias = Callable[[Any], Any]

Wait: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="How long to wait for a store that is away, such as 30s; else the setting store.wait.",
    ),
]
Concurrency: TypeAlias = Annotated[
    int | None, typer.Option(help="Jobs at once; else the setting concurrency.")
]
InProcesses: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--process",
        help="Run handlers that are plain functions in processes, not in threads: for code that "
        "computes, or that may crash.",
    ),
]
Processes: TypeAlias = Annotated[
    int,
    typer.Option(
        min=1,
        help="Run the whole command in so many processes, one for each core, say; each has "
        "workers of its own.",
    ),
]
Options: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        metavar="NAME=VALUE",
        help="Any option of the worker, such as timeout=30s, once for each.",
    ),
]


def with_options(
    settings: "Settings",
    section: "Key",
    *,
    wait: str | None = None,
    options: Sequence[str] | None = None,
    **given: object,
) -> "Settings":
    """The settings, with what the command's options say about the worker in this section."""
    return settings.changed(_entries(section, wait, options or (), given))


def _entries(
    section: "Key", wait: str | None, options: Sequence[str], given: Mapping[str, object]
) -> "Iterator[Entry]":
    # Reading settings takes long to load, and help needs only the options above.
    from waystation.core.settings.sources import Entry

    if wait is not None:
        yield Entry(("store", "wait"), wait, "--wait")
    for option in options:
        name, found, text = option.partition("=")
        if not found:
            raise InvalidOption(f"--option wants NAME=VALUE, got {option!r}")
        yield Entry((*section, *name.strip().split(".")), text.strip() or None, "--option")
    for name, value in given.items():
        if value is not None:
            yield Entry((*section, name), _written(value), f"--{name.replace('_', '-')}")


def _written(value: object) -> "Value":
    if isinstance(value, list | tuple):
        return [str(each) for each in cast("Sequence[object]", value)]
    return str(value)


def object_at(place: str, what: str) -> Any:
    """Import what `module:name` names, also from the directory that the command runs in."""
    module_name, _, name = place.partition(":")
    if not module_name or not name:
        raise InvalidOption(f"{what} is given as module:name, got {place!r}")
    module = import_module(module_name)
    if not hasattr(module, name):
        near = nearest(name, (each for each in vars(module) if not each.startswith("_")))
        meant = f"; did you mean {near}?" if near else ""
        raise InvalidOption(f"{module_name} has no {name}{meant}")
    return getattr(module, name)


def handler_at(place: str) -> JobHandler | Mapping[str, JobHandler]:
    """Import the handler, or the handlers by name, that `module:name` names."""
    found = object_at(place, "a handler")
    if isinstance(found, Mapping):
        handlers = cast(Mapping[str, Any], found)
        if handlers and all(callable(each) for each in handlers.values()):
            return handlers
    elif callable(found):
        return found
    raise InvalidOption(
        f"{place} must be a function, or functions by the name of the job, got {found!r}"
    )
