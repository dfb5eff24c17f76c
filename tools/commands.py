"""The page of the commands: what each does and takes, read off the command line itself."""

import textwrap
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import typer

from waystation.cli.mounts import MOUNTS, load


def parts() -> Iterator[str]:
    """Every command under the heading of the help, with its own commands below it."""
    for panel, mounts in groupby(MOUNTS, key=lambda mount: mount.panel):
        yield f"## {panel}"
        for mount in mounts:
            yield from _described(load(mount), f"waystation {mount.name}", 3)


def _described(command: Any, called: str, depth: int) -> Iterator[str]:
    context = typer.Context(command, info_name=called)
    yield f"{'#' * depth} `{called}`"
    yield _unwrapped(command.help or "")
    if rows := _parameters(command, context):
        yield "\n".join(["| takes | meaning |", "| --- | --- |", *rows])
    if examples := _examples(command.epilog or ""):
        yield f"```sh\n{examples}\n```"
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        below = command.get_command(context, name)
        if not below.hidden:
            yield from _described(below, f"{called} {name}", depth + 1)


def _parameters(command: Any, context: typer.Context) -> list[str]:
    records = [each.get_help_record(context) for each in command.params]
    return [
        f"| `{_cell(given)}` | {_cell(meaning)} |"
        for given, meaning in filter(None, records)
        if given != "--help"
    ]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("  [", " [")


def _unwrapped(text: str) -> str:
    """Paragraphs on one line each, as they are broken for a terminal."""
    paragraphs = text.replace("\b", "").strip().split("\n\n")
    return "\n\n".join(" ".join(each.split()) for each in paragraphs)


def _examples(epilog: str) -> str:
    return textwrap.dedent(epilog.replace("\b", "").partition("Examples:")[2].strip("\n")).strip()
