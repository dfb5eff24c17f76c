"""Names of a package that are found when first asked for.

Settings, documentation and Spark's executors need a line's declarations, not what runs; importing
the whole line for them would cost a second and pull in an event loop.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def names_of(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's `__getattr__`: each name comes from the module that is its home.

    A home without a dot is a module of the package.
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        return getattr(import_module(home if "." in home else f".{home}", package), name)

    return find
