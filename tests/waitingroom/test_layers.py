"""The import contracts of the waiting room, each seen to fail when it is broken."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.project import ROOT

LINT = Path(sys.executable).parent / "lint-imports"
BROKEN = {
    "room.py": "waystation.waitingroom.http.bodies",
    "operating/lottery.py": "waystation.waitingroom.pages.words",
    "operating/control.py": "waystation.waitingroom.running",
    "pages/render.py": "waystation.waitingroom.http.bodies",
    "middleware/gate.py": "waystation.waitingroom.http.bodies",
    "http/options.py": "waystation.waitingroom.http.context",
    "http/status.py": "waystation.waitingroom.http.sites",
}


@pytest.mark.parametrize("module", BROKEN)
def test_an_import_against_the_layers_is_reported(module: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / "src/waystation/waitingroom" / module).open("a") as file:
        file.write(f"\nimport {BROKEN[module]}\n")
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "src"), "NO_COLOR": "1"}
    done = subprocess.run(
        [LINT, "--no-cache"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    path = module.removesuffix(".py").replace("/", ".")
    assert done.returncode == 1
    assert f"waystation.waitingroom.{path} ->" in done.stdout
