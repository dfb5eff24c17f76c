"""What commands share: options, a step on the store, lists as columns, the handler of a worker."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar, cast

import typer

from waystation.core.app.imports import import_module
from waystation.core.errors import InvalidOption
from waystation.core.options import nearest

if TYPE_CHECKING:
    from waystation.core.settings.load import Settings
    from waystation.core.settings.sources import Entry, Key, Value
    from waystation.core.store.connection import Store

T = TypeVar("T")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def on_store(settings: Settings, step: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
    """Take a step on the store that the settings name."""
    # These take long to load, and help needs none of them.
    import asyncio

    from waystation.core.app import compose
    from waystation.core.app.settings import StoreSettings

    async def run() -> T:
        async with compose.store(settings[StoreSettings]) as store:
            return await step(store)

    return asyncio.run(run())


def list_rows(
    rows: Sequence[Sequence[str]],
    *,
    none: str,
    head: Sequence[str] | None = None,
    most: int | None = None,
) -> None:
    """Print a line for each row; when there is none, `none` goes to stderr.

    Of more than `most` rows so many are printed, and stderr says that there are more.

    `head` has the headings of the columns, for people: programs that read the lines get none.
    """
    if most is not None and len(rows) > most:
        rows = rows[:most]
        typer.echo(f"only {most:,} are shown, there are more: --count", err=True)
    if not rows:
        typer.echo(none, err=True)
    elif head and sys.stdout.isatty():
        rows = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())


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
    settings: Settings,
    section: Key,
    *,
    wait: str | None = None,
    options: Sequence[str] | None = None,
    **given: object,
) -> Settings:
    """The settings, with what the command's options say about the worker in this section."""
    return settings.changed(_entries(section, wait, options or (), given))


def _entries(
    section: Key, wait: str | None, options: Sequence[str], given: Mapping[str, object]
) -> Iterator[Entry]:
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


def _written(value: object) -> Value:
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
