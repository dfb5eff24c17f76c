"""What a question imports: nothing that takes longer to load than the answer takes."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.ask import lakes

RUN = """
import sys
from waystation.cli.root import run
try:
    run(sys.argv[1:])
finally:
    print(*sys.modules, file=sys.stderr)
"""
SPARK = {"pyspark", "py4j"}
WORKERS = {
    "waystation.bullmq.worker",
    "waystation.routing.queue",
    "waystation.files.settings",
    "waystation.core.runtime.worker",
}
ALWAYS = {*SPARK, *WORKERS, "rich", "yaml", "fastapi", "textual"}
STORE = {"redis", "opentelemetry", "cryptography"}


@pytest.mark.parametrize(
    ("command", "others"),
    [
        pytest.param(["find", "3"], set[str](), id="find"),
        pytest.param(["find", "3", "--no-live"], STORE, id="find without the store"),
        pytest.param(["sql", "select count(*) from items"], STORE, id="sql"),
        pytest.param(["sql", "select count(*) from jobs"], set[str](), id="sql with the store"),
        pytest.param(["queues"], STORE, id="queues"),
        pytest.param(["status"], {"duckdb"}, id="status"),
    ],
)
def test_a_question_imports_only_what_it_needs(
    command: list[str], others: set[str], tmp_path: Path, redis_url: str
) -> None:
    root = str(tmp_path / "history")
    lakes.keep(root, [lakes.job(random.Random(1), number) for number in range(4)])
    ran = subprocess.run(
        [sys.executable, "-c", RUN, "pipeline", *command, "--history", root],
        cwd=tmp_path,
        env={**os.environ, "WAYSTATION_STORE__URL": redis_url},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(ran.stderr.split())
    assert ran.stdout or "no job was in the queues then" in ran.stderr
    assert "waystation.pipeline.tables" in loaded
    assert sorted(loaded & (ALWAYS | others)) == []


@pytest.mark.slow
def test_where_spark_is_not_installed_questions_are_listed_and_answered(
    tmp_path: Path, redis_url: str
) -> None:
    root = str(tmp_path / "history")
    lakes.keep(root, [lakes.job(random.Random(1), number) for number in range(4)])

    def said(*words: str) -> str:
        ran = subprocess.run(
            [sys.executable, "-c", f"import sys; sys.modules['pyspark'] = None\n{RUN}", *words],
            cwd=tmp_path,
            env={
                **os.environ,
                "WAYSTATION_STORE__URL": redis_url,
                "WAYSTATION_PIPELINE__HISTORY": root,
            },
            capture_output=True,
            text=True,
        )
        return ran.stdout or ran.stderr

    listed = said("pipeline", "--help")
    assert all(f"\n  {name} " in listed for name in ("find", "queues", "sql", "status"))
    assert "\n  run " not in listed
    assert "waystation[spark]" in said("pipeline", "run")
    assert said("pipeline", "sql", "select count(*) as n from items", "--json") == '{"n":4}\n'
    assert "the history is empty" in said("pipeline", "status")
    assert "job_id         3" in said("pipeline", "find", "3")
    visits = "select count(*) as n from visits"
    assert said("pipeline", "sql", visits, "--json") == '{"n":0}\n'
    assert "nothing was added" in said("redrive", "3", "--state", "completed")
