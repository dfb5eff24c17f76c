"""Import contracts, each seen to fail when it is broken."""

import os
import re
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
    (VALUES, "core/store/faults.py", "waystation.core.line.wake_up"),
    (SPARK, "console/top.py", "pyspark"),
    (CIRCLES, "pipeline/products/facts.py", "waystation.pipeline.sources.offsets"),
    (DUCKDB, "pipeline/storage/delta.py", "duckdb"),
    (QUESTIONS, "pipeline/redrive.py", "pyspark"),
    (CIRCLES, "pipeline/silver/steps.py", "waystation.pipeline.history"),
    (CIRCLES, "pipeline/storage/delta.py", "waystation.pipeline.sources.streams"),
    (CIRCLES, "pipeline/history.py", "waystation.pipeline.refresh.fold"),
    (CIRCLES, "pipeline/runner.py", "waystation.pipeline.health"),
    (DECLARATIONS, "pipeline/products/bullmq.py", "waystation.bullmq.worker"),
    (DECLARATIONS, "pipeline/products/files.py", "waystation.files.queue"),
    (DECLARATIONS, "pipeline/sources/streams.py", "waystation.routing.source"),
    (DECLARATIONS, "pipeline/feedback.py", "waystation.waitingroom.room"),
    (COMMANDS, "bullmq/queue.py", "waystation.bullmq.commands.app"),
    (COMMANDS, "files/worker.py", "waystation.files.commands.wiring"),
    (SHARED, "routing/queue.py", "waystation.core.app.compose"),
    (SHARED, "core/telemetry/logs.py", "waystation.core.app.invocation"),
    (LOADER, "core/settings/load.py", "waystation.core.telemetry.logs"),
]


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What is said of each broken contract, of a package with all of these imports."""
    home = tmp_path_factory.mktemp("contracts")
    package = home / "src" / "waystation"
    shutil.copytree(ROOT / "src" / "waystation", package, ignore=shutil.ignore_patterns("*.pyc"))
    shutil.copy(ROOT / "pyproject.toml", home)
    for _, file, imported in MUTATIONS:
        with (package / file).open("a") as source:
            source.write(f"\nimport {imported}\n")

    environment = os.environ | {"NO_COLOR": "1", "PYTHONPATH": str(home / "src")}
    done = subprocess.run(
        [LINT, "--no-cache"], cwd=home, env=environment, capture_output=True, text=True
    )
    _, *said = re.split(r"^(.+)\n-+\n", done.stdout.partition("Broken contracts")[2], flags=re.M)
    return dict(zip(said[::2], said[1::2], strict=True))


@pytest.mark.parametrize(("contract", "file", "imported"), MUTATIONS)
def test_a_forbidden_import_breaks_its_contract(
    broken: dict[str, str], contract: str, file: str, imported: str
) -> None:
    module = "waystation." + file.removesuffix(".py").replace("/", ".")
    [said] = [said for name, said in broken.items() if name.startswith(contract)]
    assert f"{module} -> {imported} (l." in " ".join(said.split())
