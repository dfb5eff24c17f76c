"""YAML and environment, made into one checked model."""

from waystation.cli.settings.load import Loaded, load
from waystation.cli.settings.sections import Settings
from waystation.core.settings.store import FILE_VARIABLE

__all__ = ["FILE_VARIABLE", "Loaded", "Settings", "load"]
