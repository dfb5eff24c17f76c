"""The programs of the page about orchestrators, run by the orchestrators themselves."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from redis import Redis

from tests.pipeline.raw_streams import write_events
from tests.pipeline.test_cluster import stored_entries
from tests.support.project import ROOT
from tools.environments import python_with

PAGE = (ROOT / "docs/how-to/run-the-pipeline-from-an-orchestrator.md").read_text()
AIRFLOW, DAGSTER = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)

MATERIALIZE = """
import dagster
import queue_history as page

done = dagster.materialize([page.queue_history], resources={})
(made,) = done.asset_materializations_for_node("queue_history")
assert done.success
assert made.metadata["events"].value == 500, made.metadata
dagster.Definitions.validate_loadable(page.defs)
"""


def ended(python: Path, *words: str, home: Path, **environment: str) -> str:
    """What a program says that has ended well; it finds waystation as ours."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [str(python), *words],
        cwd=home,
        env={**clean, "PATH": path, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_dagster_makes_the_history(store: Redis, redis_url: str, root: str, tmp_path: Path) -> None:
    written = [("bull:mail:events", entry) for entry in write_events(store, 500, event="completed")]
    (tmp_path / "queue_history.py").write_text(DAGSTER)
    ended(
        python_with("dagster", "dagster==1.13.*"),
        "-c",
        MATERIALIZE,
        home=tmp_path,
        DAGSTER_DISABLE_TELEMETRY="1",
        WAYSTATION_STORE__URL=redis_url,
        WAYSTATION_PIPELINE__HISTORY=root,
    )
    assert sorted(stored_entries(root)) == sorted(written)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_airflow_makes_the_history(store: Redis, redis_url: str, root: str, tmp_path: Path) -> None:
    written = [("bull:mail:events", entry) for entry in write_events(store, 500, event="completed")]
    dags = tmp_path / "dags"
    dags.mkdir()
    (dags / "queue_history.py").write_text(
        f"{AIRFLOW}\n\nif __name__ == '__main__':\n    dag.test()\n"
    )
    python = python_with("airflow", "apache-airflow==3.3.*")
    environment = {
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "WAYSTATION_STORE__URL": redis_url,
        "WAYSTATION_PIPELINE__HISTORY": root,
    }
    ended(python, "-m", "airflow", "db", "migrate", home=tmp_path, **environment)
    ended(python, str(dags / "queue_history.py"), home=tmp_path, **environment)
    assert sorted(stored_entries(root)) == sorted(written)
