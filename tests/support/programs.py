"""Programs that a test needs and a machine may lack."""

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

FETCHED = Path(__file__).parents[2] / ".tools" / "bin"


def require_program(name: str, *, package: str) -> str:
    """The way to a program, from the machine or fetched by `make test`."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}{os.pathsep}{FETCHED}")
    if found is None:
        cannot_run(
            f"{name} is not here; `apt install {package}`, or `make test` as root, brings it"
        )
    return found


def cannot_run(reason: str) -> NoReturn:
    """Skip the test and say why; where CI is set nothing may be skipped, so fail."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
