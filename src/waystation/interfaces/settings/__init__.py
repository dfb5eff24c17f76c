"""YAML and environment, made into one checked model."""

from waystation.interfaces.settings.load import FILE_VARIABLE, Loaded, load
from waystation.interfaces.settings.sections import Settings

__all__ = ["FILE_VARIABLE", "Loaded", "Settings", "load"]
