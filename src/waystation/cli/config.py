"""`waystation config`: the settings in force and their schema."""

import json

import msgspec
import typer

from waystation.cli.sections import SECTIONS
from waystation.core.app.commands import AsJson, list_rows
from waystation.core.app.invocation import loaded
from waystation.core.settings.load import together
from waystation.core.settings.schema import schema as json_schema

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


@app.callback()
def config() -> None:
    """Show the settings in force, and those that exist."""


@app.command()
def show(
    context: typer.Context,
    as_json: AsJson = False,
) -> None:
    """Print every setting with its value and where that was set; secrets are masked."""
    rows = list(loaded(context).shown())
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(rows)).decode())
        return
    list_rows([(row.name, row.value, row.origin) for row in rows], none="there are no settings")


@app.command()
def schema() -> None:
    """Print the JSON schema of a settings file, for editors."""
    typer.echo(json.dumps(json_schema(together(SECTIONS)), indent=2))
