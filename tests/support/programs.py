"""Programs that a test needs and a machine may lack."""

import os
import shutil
from pathlib import Path

import pytest

FETCHED = Path(__file__).parents[2] / ".tools" / "bin"


def require_program(name: str, *, package: str) -> str:
    """The way to a program; without it the test is skipped, or fails where CI is set."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}{os.pathsep}{FETCHED}")
    if found:
        return found
    reason = f"{name} is not here; `apt install {package}` brings it, as does `make test` as root"
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
