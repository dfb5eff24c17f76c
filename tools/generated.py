"""What all Python modules written by a tool share: a mark, and the shape that ruff gives."""

import subprocess
import sys
from pathlib import Path

from tools.step import ROOT

SOURCE = ROOT / "src"
RUFF = Path(sys.executable).with_name("ruff")
MADE = "Written by `make docs` from"
"""The mark of a generated module."""


def is_made(file: Path) -> bool:
    """Whether a tool has written this module."""
    return file.suffix in (".py", ".pyi") and f"\n\n{MADE}" in file.read_text()


def module(file: Path, title: str, source: str, *code: str) -> str:
    """The text of a module that says what it is and where to change it."""
    return formatted(
        file, "\n".join([f'"""{title}\n\n{MADE} {source}; do not edit.\n"""\n', *code])
    )


def formatted(file: Path, text: str) -> str:
    """The text as `make check` wants it, without what is imported and not used."""
    for command in ("check --fix --select F401", "check --fix --select I", "format"):
        text = subprocess.run(
            [RUFF, *command.split(), "-q", "--stdin-filename", file, "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    return text
