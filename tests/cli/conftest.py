import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Finished = subprocess.CompletedProcess[str]
Waystation = Callable[..., Finished]


@pytest.fixture
def waystation(tmp_path: Path) -> Waystation:
    """The command as a shell runs it, in a directory of its own and without our environment."""
    clean = {name: value for name, value in os.environ.items() if "WAYSTATION" not in name}

    def run(*args: str, **environ: str) -> Finished:
        return subprocess.run(
            [sys.executable, "-m", "waystation", *args],
            cwd=tmp_path,
            env=clean | environ,
            capture_output=True,
            text=True,
            check=False,
        )

    return run
