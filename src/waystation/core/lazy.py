"""Names of a package that are found when first asked for.

Settings, documentation and Spark's executors need a line's declarations, not what runs; importing
the whole line for them would cost a second and pull in an event loop.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def names_of(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's `__getattr__`, from the names that each module is the home of.

    A module is named from the package on, or from `waystation`; `Job=SyncJob` offers its name under
    another. This is the one list of what a package offers: `__all__` comes from it, and `make docs`
    writes the stub next to it that editors and type checkers read (`tools/stubs.py`).
    """
    found: dict[str, tuple[str, str]] = {}
    for home, names in homes.items():
        place = home if home.startswith("waystation.") else f"{package}.{home}"
        for each in names.split():
            name, _, original = each.partition("=")
            found[name] = place, original or name

    def find(name: str) -> Any:
        if name == "__all__":
            return [*found]
        if name not in found:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        place, original = found[name]
        return getattr(import_module(place), original)

    return find
