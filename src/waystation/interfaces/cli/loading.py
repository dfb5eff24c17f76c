"""The settings of the command that runs."""

import typer

from waystation.interfaces.cli import invocation
from waystation.interfaces.settings import Loaded, load


def loaded(context: typer.Context) -> Loaded:
    """Load the settings, and mention a settings file that was asked for but is not there."""
    found = load(invocation.of(context).config)
    if found.missing:
        typer.echo(f"waystation: no file {found.missing}, the defaults count", err=True)
    return found
