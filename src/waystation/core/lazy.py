"""Names of a package that are found when first asked for.

Settings, documentation and Spark's executors need a line's declarations, not what runs; importing
the whole line for them would cost a second and pull in an event loop.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def names_of(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's `__getattr__`, from the names that each module is the home of.

    A module is named from the package on, or from `waystation`.
    """
    found = {
        name: home if home.startswith("waystation.") else f"{package}.{home}"
        for home, names in homes.items()
        for name in names.split()
    }

    def find(name: str) -> Any:
        if name not in found:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(found[name]), name)

    return find
