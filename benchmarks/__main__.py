"""Run the benchmarks: `python -m benchmarks [NAME ...]`, all without a name.

A name stands for what begins with it, too: `pipeline` for `pipeline_fold`.
"""

import importlib
import pkgutil
import sys
from collections.abc import Callable
from itertools import chain
from typing import TypeAlias

from rich.console import Console

import benchmarks
from benchmarks.report import Report, machine

Benchmark: TypeAlias = Callable[[], Report | list[Report]]


def main(names: list[str]) -> int:
    """Run the named benchmarks and show their reports; 2 for a name nobody has."""
    console = Console()
    known = benchmarks_by_name()
    chosen = {name: [each for each in known if f"{each}_".startswith(f"{name}_")] for name in names}
    if unknown := [name for name, found in chosen.items() if not found]:
        console.print(f"wanted one of {', '.join(known)}, got {', '.join(unknown)}")
        return 2
    console.print(f"[dim]{machine()}[/]\n", highlight=False)
    for name in dict.fromkeys(chain(*chosen.values())) if names else known:
        with console.status(f"measuring {name}"):
            reports = known[name]()
        for report in reports if isinstance(reports, list) else [reports]:
            console.print(report.table())
            console.print()
    return 0


def benchmarks_by_name() -> dict[str, Benchmark]:
    """Every module beside this one that has a `run`."""
    names = sorted(found.name for found in pkgutil.iter_modules(benchmarks.__path__))
    modules = {
        name: importlib.import_module(f"benchmarks.{name}") for name in names if name != "__main__"
    }
    # A folder may have a module of that name, which is none of them.
    return {
        name: module.run
        for name, module in modules.items()
        if callable(getattr(module, "run", None))
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
