"""The page of the commands: what each does and takes, read off the command line itself."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

import typer

from waystation.cli.mounts import MOUNTS, Mount, load

MANY = 3
"""Commands that take the same option for it to be described once."""

Row: TypeAlias = tuple[str, str]


def parts() -> Iterator[str]:
    """Every command under the heading of the help, with its own commands below it."""
    panels = groupby(MOUNTS, key=lambda mount: mount.panel)
    known = {
        panel: [each for mount in mounts for each in _commands(mount)] for panel, mounts in panels
    }
    counted = Counter(row for found in known.values() for each in found for row in set(each.rows))
    # A name stands for one option alone: the one that most commands take.
    best = {row[0]: row for row, _ in reversed(counted.most_common())}
    options = [row for given, row in best.items() if given.startswith("-")]
    shared = [row for row in options if counted[row] >= MANY]
    yield "## Options of many commands"
    yield "A command that takes one of these names it."
    yield _table(sorted(shared, key=lambda row: row[0].lower()))
    for panel, found in known.items():
        yield f"## {panel}"
        for each in found:
            yield from _described(each, shared)


class Described(NamedTuple):
    """One command, as its help says it."""

    command: Any
    called: str
    depth: int
    rows: list[Row]


def _commands(mount: Mount) -> Iterator[Described]:
    yield from _below(load(mount), f"waystation {mount.name}", 3)


def _below(command: Any, called: str, depth: int) -> Iterator[Described]:
    context = typer.Context(command, info_name=called)
    yield Described(command, called, depth, _parameters(command, context))
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        below = command.get_command(context, name)
        if not below.hidden:
            yield from _below(below, f"{called} {name}", depth + 1)


def _described(each: Described, shared: Sequence[Row]) -> Iterator[str]:
    yield f"{'#' * each.depth} `{each.called}`"
    yield _unwrapped(each.command.help or "")
    if own := [row for row in each.rows if row not in shared]:
        yield _table(own)
    if common := [f"`{given}`" for given, _ in each.rows if (given, _) in shared]:
        yield f"Takes {'also ' if own else ''}{', '.join(common)}."
    if examples := _examples(each.command.epilog or ""):
        yield f"```sh\n{examples}\n```"


def _table(rows: Iterable[Row]) -> str:
    lines = (f"| `{_cell(given)}` | {_cell(meaning)} |" for given, meaning in rows)
    return "\n".join(["| takes | meaning |", "| --- | --- |", *lines])


def _parameters(command: Any, context: typer.Context) -> list[Row]:
    records = [each.get_help_record(context) for each in command.params]
    return [_plain(*record) for record in filter(None, records) if record[0] != "--help"]


def _plain(given: str, meaning: str) -> Row:
    # What stands without dashes is text and required, unless its brackets say otherwise.
    if given.startswith("-"):
        return given, meaning
    return given.removesuffix(" <str>"), meaning.replace("[required]", "").strip()


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("  [", " [")


def _unwrapped(text: str) -> str:
    """Paragraphs on one line each, as they are broken for a terminal."""
    paragraphs = text.replace("\b", "").strip().split("\n\n")
    return "\n\n".join(" ".join(each.split()) for each in paragraphs)


def _examples(epilog: str) -> str:
    return textwrap.dedent(epilog.replace("\b", "").partition("Examples:")[2].strip("\n")).strip()
