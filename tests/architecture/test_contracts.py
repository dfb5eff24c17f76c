"""Import contracts of the pipeline, each seen to fail when it is broken."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.project import ROOT

LINT = Path(sys.executable).with_name("lint-imports")
CIRCLES = "Inside the pipeline imports point down"
DECLARATIONS = "The pipeline takes declarations from a product, nothing that runs"

MUTATIONS = [
    (CIRCLES, "products/facts.py", "waystation.pipeline.history"),
    (CIRCLES, "silver/steps.py", "waystation.pipeline.history"),
    (CIRCLES, "storage/delta_sink.py", "waystation.pipeline.sources.streams"),
    (CIRCLES, "history.py", "waystation.pipeline.refresh.fold"),
    (CIRCLES, "runner.py", "waystation.pipeline.health"),
    (DECLARATIONS, "products/bullmq.py", "waystation.bullmq.worker"),
    (DECLARATIONS, "products/files.py", "waystation.files.queue"),
    (DECLARATIONS, "sources/streams.py", "waystation.routing.claims"),
    (DECLARATIONS, "feedback/wait_models.py", "waystation.waitingroom.room"),
]


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize(("contract", "file", "imported"), MUTATIONS)
def test_a_forbidden_import_breaks_its_contract(
    contract: str, file: str, imported: str, tmp_path: Path
) -> None:
    package = tmp_path / "src" / "waystation"
    shutil.copytree(ROOT / "src" / "waystation", package, ignore=shutil.ignore_patterns("*.pyc"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (package / "pipeline" / file).open("a") as source:
        source.write(f"\nimport {imported}\n")

    environment = os.environ | {"NO_COLOR": "1", "PYTHONPATH": str(tmp_path / "src")}
    done = subprocess.run(
        [LINT, "--no-cache"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )

    broken = [line for line in done.stdout.splitlines() if " BROKEN" in line]
    assert len(broken) == 1, done.stdout + done.stderr
    assert broken[0].startswith(contract)
