"""The settings of the command that runs."""

import typer

from waystation.cli import invocation
from waystation.cli.settings import Loaded, load
from waystation.core.errors import InvalidSetting


def loaded(context: typer.Context) -> Loaded:
    """Load the settings; a settings file that was asked for has to be there."""
    found = load(invocation.of(context).config)
    if found.missing:
        # Its defaults would be another store, on which everything looks well and nothing happens.
        raise InvalidSetting(f"there is no settings file {found.missing}")
    return found
