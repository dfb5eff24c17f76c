"""The example for `spark-pipelines`, run by Spark itself."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest
from deltalake import DeltaTable
from redis import Redis

from tests.pipeline.conftest import JAVA
from tests.pipeline.connect_server import connect_environment
from tests.pipeline.drill import PROJECT
from waystation.pipeline.storage.arrow import dataset
from waystation.pipeline.tables import ATTEMPTS, HOURLY, ITEMS

EXAMPLE = PROJECT / "examples" / "spark_pipelines"
DEFAULTS = f"""\
spark.sql.catalogImplementation hive
spark.ui.enabled false
spark.driver.host 127.0.0.1
spark.driver.bindAddress 127.0.0.1
spark.sql.shuffle.partitions 2
spark.driver.extraJavaOptions {JAVA}
"""


def work(store: Redis, first: int, last: int) -> None:
    """Write the events of jobs that were added, tried, retried and ended."""
    line = store.pipeline(transaction=False)
    for number in range(first, last):
        events = [{"event": "added", "name": "send"}, {"event": "waiting"}, {"event": "active"}]
        if number % 3 == 0:
            events += [{"event": "retrying"}, {"event": "waiting"}, {"event": "active"}]
        failed = {"event": "failed", "failedReason": f"TimeoutError: no answer from host {number}"}
        events.append(failed if number % 5 == 0 else {"event": "completed"})
        for each in events:
            line.xadd("bull:mail:events", {**each, "jobId": str(number)})
    line.execute()


def ended(words: list[str], folder: Path, url: str, root: str) -> None:
    """Run a program in a folder, which must end well."""
    done = subprocess.run(
        words,
        cwd=folder,
        env={
            **os.environ,
            **connect_environment(),
            "WAYSTATION_STORE__URL": url,
            "WAYSTATION_PIPELINE__HISTORY": root,
            "SPARK_CONF_DIR": str(folder / "conf"),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]


def declared(folder: Path, name: str) -> Any:
    """The rows of a table that Spark has made, as an Arrow table."""
    return dataset.dataset(folder / "spark-warehouse" / name, format="parquet").to_table()


def in_order(rows: Any, names: list[str]) -> list[Any]:
    return sorted(rows.select(names).to_pylist(), key=repr)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_example_builds_the_same_tables(
    store: Redis, redis_url: str, root: str, tmp_path: Path
) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(DEFAULTS)
    example = Path(shutil.copytree(EXAMPLE, tmp_path / "example"))
    spec = example / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("/var/lib/waystation", str(tmp_path)))
    program = str(Path(pyspark.__file__).parent / "bin" / "spark-pipelines")
    for first in (0, 50):
        work(store, first, first + 50)
        run = [sys.executable, "-m", "waystation", "pipeline", "run", "--once"]
        ended(run, tmp_path, redis_url, root)
        ended([program, "run", "--spec", str(spec)], tmp_path, redis_url, root)

        counts = ["product", "queue", "hour", "started", "retried"]
        for table, name, columns in (
            (ATTEMPTS, "attempts", ATTEMPTS.names),
            (ITEMS, "items", ITEMS.names),
            (HOURLY, "starts", counts),
        ):
            kept: Any = DeltaTable(table.path(root))
            ours = in_order(kept.to_pyarrow_table(), columns)
            assert ours
            assert in_order(declared(tmp_path, name), columns) == ours
        assert sum(declared(tmp_path, "days")["items"].to_pylist()) == first + 50
