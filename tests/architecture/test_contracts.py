"""Import contracts, each seen to fail when it is broken."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.project import ROOT

LINT = Path(sys.executable).with_name("lint-imports")
CIRCLES = "Inside the pipeline imports point down"
DUCKDB = "Spark computes what is stored; DuckDB answers questions alone"
DECLARATIONS = "The pipeline takes declarations from a product, nothing that runs"
COMMANDS = "Commands are for the command line"
SHARED = "What commands share is for commands and settings"
LOADER = "The loader of settings knows no section"

QUESTIONS = "Questions need no Spark"
DOWN = "Imports point down"
RUNTIME = "The runtime knows no Redis"
VALUES = "Values know nothing that runs"
SPARK = "Only the pipeline knows Spark"

MUTATIONS = [
    (DOWN, "bullmq/states.py", "waystation.routing.redis.keys"),
    (DOWN, "core/identity.py", "waystation.errors"),
    (RUNTIME, "core/runtime/tasks.py", "redis"),
    (VALUES, "core/codec.py", "waystation.core.telemetry.logs"),
    (VALUES, "core/store/faults.py", "waystation.core.line.server_time"),
    (SPARK, "console/top.py", "pyspark"),
    (CIRCLES, "pipeline/products/facts.py", "waystation.pipeline.sources.offsets"),
    (DUCKDB, "pipeline/storage/delta.py", "duckdb"),
    (QUESTIONS, "pipeline/redrive/driver.py", "pyspark"),
    (CIRCLES, "pipeline/silver/steps.py", "waystation.pipeline.history"),
    (CIRCLES, "pipeline/storage/delta.py", "waystation.pipeline.sources.streams"),
    (CIRCLES, "pipeline/history.py", "waystation.pipeline.refresh.fold"),
    (CIRCLES, "pipeline/runner.py", "waystation.pipeline.health"),
    (DECLARATIONS, "pipeline/products/bullmq.py", "waystation.bullmq.worker"),
    (DECLARATIONS, "pipeline/products/files.py", "waystation.files.queue"),
    (DECLARATIONS, "pipeline/sources/streams.py", "waystation.routing.source.claims"),
    (DECLARATIONS, "pipeline/feedback/wait_models.py", "waystation.waitingroom.room"),
    (COMMANDS, "bullmq/queue.py", "waystation.bullmq.commands.app"),
    (COMMANDS, "files/worker.py", "waystation.files.commands.wiring"),
    (SHARED, "routing/queue.py", "waystation.core.app.compose"),
    (SHARED, "core/telemetry/logs.py", "waystation.core.app.failures"),
    (LOADER, "core/settings/load.py", "waystation.core.telemetry.logs"),
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
    with (package / file).open("a") as source:
        source.write(f"\nimport {imported}\n")

    environment = os.environ | {"NO_COLOR": "1", "PYTHONPATH": str(tmp_path / "src")}
    done = subprocess.run(
        [LINT, "--no-cache"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )

    broken = [line for line in done.stdout.splitlines() if " BROKEN" in line]
    assert len(broken) == 1, done.stdout + done.stderr
    assert broken[0].startswith(contract)
