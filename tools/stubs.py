"""Stubs of packages whose names are found when first asked for.

A package lists its names once, in the call of `names_of` that makes its `__getattr__`. Type
checkers and editors cannot follow that, and read the same list from the stub.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from tools.generated import SOURCE, module


def modules() -> dict[Path, str]:
    """The text of every stub by its file."""
    return {
        file.with_suffix(".pyi"): _stub(file, homes)
        for file in sorted((SOURCE / "waystation").rglob("*.py"))
        for homes in _homes(file)
    }


def _homes(file: Path) -> Iterator[dict[str, str]]:
    text = file.read_text()
    # Most files need no parsing.
    if "= names_of(" in text:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "names_of":
                yield ast.literal_eval(node.args[1])


def _stub(file: Path, homes: dict[str, str]) -> str:
    package = ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    imports: list[str] = []
    names: list[str] = []
    for home, listed in homes.items():
        place = home if home.startswith("waystation.") else f"{package}.{home}"
        for name, _, original in (each.partition("=") for each in listed.split()):
            found = f"{original} as {name}" if original else name
            imports.append(f"from {place} import {found}")
            names.append(name)
    title = f"What `{package}` offers."
    offered = f"__all__ = {sorted(names)}"
    return module(file.with_suffix(".pyi"), title, "the list next to it", *imports, offered)
