"""The command `waystation`."""

import os
import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.completion import completion_init  # pyright: ignore[reportPrivateImportUsage]
from typer.core import TyperGroup
from typer.main import get_group

from waystation import __version__
from waystation.cli.mounts import MOUNTS, Mounted, load
from waystation.core.app import invocation
from waystation.core.app.invocation import Invocation, in_one_line

if TYPE_CHECKING:
    from waystation.core.settings.section import Section

HELP = ["-h", "--help"]
COMPLETION = "_WAYSTATION_COMPLETE"
"""Set by a shell that wants to know what can come next."""
EXAMPLES = """\b
Examples:
  waystation doctor
  waystation --config prod.yaml config show
  WAYSTATION_STORE__URL=redis://db:6379 waystation doctor
"""


class Root(TyperGroup):
    """The root command, which lists its commands in groups."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one list for each group of commands."""
        for panel, mounts in groupby(MOUNTS, key=lambda mount: mount.panel):
            with formatter.section(panel):
                formatter.write_dl([(mount.name, mount.help) for mount in mounts])


# Rich would draw boxes around the help, and take longer to load than all the rest.
app = typer.Typer(
    cls=Root,
    epilog=EXAMPLES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": HELP},
)


def run(args: Sequence[str] | None = None) -> None:
    """Run one command and end the process with its exit code."""
    current = Invocation(_sections)
    with in_one_line(current):
        if text := quick_help(sys.argv[1:] if args is None else args):
            typer.echo(text)
            sys.exit(0)
        if COMPLETION in os.environ:
            completion_init()
        root = get_group(app)
        for mount in MOUNTS:
            root.add_command(Mounted(mount))
        root.main(args=args, prog_name="waystation", obj=current)


def quick_help(args: Sequence[str]) -> str | None:
    """The help of a command, for `NAME … --help`; None when something else is asked for.

    It is printed without reading the options before it, because whatever reads them takes longer to
    load than all the rest.
    """
    words = list(args[: args.index("--")] if "--" in args else args)
    if not set(HELP) & set(words):
        return None
    mount = next((each for each in MOUNTS if words[0] == each.name), None)
    if mount is None:
        return None
    command = load(mount)
    context = typer.Context(command, info_name=f"waystation {mount.name}", help_option_names=HELP)
    for word in (each for each in words[1:] if not each.startswith("-")):
        # A group may load its commands when it is asked for them.
        if isinstance(command, TyperGroup) and (inner := command.get_command(context, word)):
            command = inner
            context = typer.Context(command, info_name=word, parent=context)
    return command.get_help(context)


def _sections() -> "Mapping[str, type[Section]]":
    from waystation.cli.sections import SECTIONS

    return SECTIONS


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"waystation {__version__}")
        raise typer.Exit


@app.callback()
def waystation(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            help="Settings file; else WAYSTATION_CONFIG, else waystation.yaml.",
            show_default=False,
        ),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Queues for jobs, files and people in Redis, with their history in Spark."""
    current = invocation.of(context)
    current.config = config
    current.debug = debug
