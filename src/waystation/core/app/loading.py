"""The settings of the command that runs."""

from collections.abc import Mapping

import typer

from waystation.core.app import invocation
from waystation.core.errors import InvalidSetting
from waystation.core.settings.load import Settings, load
from waystation.core.settings.section import Section


def loaded(context: typer.Context) -> Settings:
    """Load the settings; a settings file that was asked for must exist."""
    current = invocation.of(context)
    return _present(load(current.sections(), current.config))


def loaded_only(context: typer.Context, sections: Mapping[str, type[Section]]) -> Settings:
    """Load these sections; all sections together take longer to import than some commands run."""
    return _present(load(sections, invocation.of(context).config, others=True))


def _present(found: Settings) -> Settings:
    if found.missing:
        # Its defaults would be another store, on which everything looks well and nothing happens.
        raise InvalidSetting(f"there is no settings file {found.missing}")
    return found
