"""YAML and environment, made into one checked model."""

from waystation.core.settings.store import FILE_VARIABLE
from waystation.interfaces.settings.load import Loaded, load
from waystation.interfaces.settings.sections import Settings

__all__ = ["FILE_VARIABLE", "Loaded", "Settings", "load"]
