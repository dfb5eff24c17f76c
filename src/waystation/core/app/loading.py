"""The settings of the command that runs."""

import typer

from waystation.core.app import invocation
from waystation.core.errors import InvalidSetting
from waystation.core.settings.load import Settings, load


def loaded(context: typer.Context) -> Settings:
    """Load the settings; a settings file that was asked for must exist."""
    current = invocation.of(context)
    found = load(current.sections(), current.config)
    if found.missing:
        # Its defaults would be another store, on which everything looks well and nothing happens.
        raise InvalidSetting(f"there is no settings file {found.missing}")
    return found
