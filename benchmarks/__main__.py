"""Run the benchmarks: `python -m benchmarks [NAME ...]`, all without a name."""

import importlib
import pkgutil
import sys
from collections.abc import Callable
from typing import TypeAlias

from rich.console import Console

import benchmarks
from benchmarks.report import Report, machine

Benchmark: TypeAlias = Callable[[], Report | list[Report]]


def main(names: list[str]) -> int:
    """Run the named benchmarks and show their reports; 2 for a name nobody has."""
    console = Console()
    known = benchmarks_by_name()
    if unknown := [name for name in names if name not in known]:
        console.print(f"wanted one of {', '.join(known)}, got {', '.join(unknown)}")
        return 2
    console.print(f"[dim]{machine()}[/]\n", highlight=False)
    for name in names or known:
        with console.status(f"measuring {name}"):
            told = known[name]()
        for report in told if isinstance(told, list) else [told]:
            console.print(report.table())
            console.print()
    return 0


def benchmarks_by_name() -> dict[str, Benchmark]:
    """Every module beside this one that has a `run`."""
    names = sorted(found.name for found in pkgutil.iter_modules(benchmarks.__path__))
    modules = {
        name: importlib.import_module(f"benchmarks.{name}") for name in names if name != "__main__"
    }
    return {name: module.run for name, module in modules.items() if hasattr(module, "run")}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
