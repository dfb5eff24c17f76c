"""Optional dependencies."""

from importlib import import_module
from types import ModuleType

from waystation.core.errors import InvalidInput


def load(module: str, *, extra: str | None, purpose: str) -> ModuleType:
    """Import a module of ours, or say which extra must be installed for its purpose."""
    try:
        return import_module(module)
    except ModuleNotFoundError as missing:
        if extra is None or (missing.name or "").startswith("waystation"):
            raise
        raise InvalidInput(
            f"{purpose} needs {missing.name}, which is not installed: "
            f"run pip install 'waystation[{extra}]', or make test in a clone"
        ) from missing
