"""What a rebuild keeps, what a status misses, and what counts as retried."""

import datetime as dt
import shutil
from typing import Any

import pytest

from tests.pipeline.rounds import history_at, keep, refresh
from tests.pipeline.saved import save
from tests.pipeline.stories import START, StoryEvent, rows
from waystation.pipeline import health
from waystation.pipeline.maintenance.rebuild import rebuild
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import pa
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.tables import FAILURES, LEDGER

LIFE = ["added", "waiting", "active", "failed", "waiting", "active", "completed"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A job of each of two queues that failed, was retried by hand, and completed."""
    root = str(tmp_path_factory.mktemp("history") / "made")
    fields = {"failed": {"failedReason": "ValueError: no"}}
    events = [
        StoryEvent(n * 100, queue, "1", event, fields=fields.get(event, {}))
        for queue in ("mail", "post")
        for n, event in enumerate(LIFE)
    ]
    found = [{**row, "fields": list(row["fields"].items())} for row in rows(events)]
    for row in found[4 :: len(LIFE)]:
        row["fields"] = [("prev", "failed")]
    keep(root, found, 0)
    refresh(history_at(root))
    return root


def ledger(root: str) -> dict[str, dict[str, Any]]:
    """The one hour of each queue."""
    found = delta.read_arrow(root, LEDGER, LEDGER.names).to_pylist()
    return {row["queue"]: row for row in found}


@pytest.mark.slow
def test_a_rebuild_keeps_what_only_snapshots_knew(made: str, root: str) -> None:
    shutil.copytree(made, root)
    seen: dict[str, Any] = {"visible": 0, "lost": 0, "lost_ids": [], "clean": True}
    known = {queue: {**row, **seen} for queue, row in ledger(root).items()}
    # An hour in which something else happened since is looked at again.
    stored = [known["mail"], {**known["post"], "terminal": 7}]
    table = pa.Table.from_pylist(stored, schema=schema_of(LEDGER.schema))
    save(table, root, LEDGER, BatchId("test", 1), replace=True)
    rebuild(history_at(root))
    found = ledger(root)
    assert found["mail"] == known["mail"]
    assert (found["post"]["visible"], found["post"]["terminal"]) == (None, 1)


def test_a_failure_that_was_retried_by_hand_was_retried(made: str) -> None:
    for row in delta.read_arrow(made, FAILURES, FAILURES.names).to_pylist():
        assert (row["attempts"], row["retried"], row["recovered"]) == (1, 1, 1)
        assert row["first_at"] == START + dt.timedelta(milliseconds=200)


def test_tables_that_are_missing_fail_the_status(made: str, root: str, redis_url: str) -> None:
    options = EventOptions(url=redis_url)
    assert health.status(root, options).failed_checks == []
    shutil.copytree(made, root)
    assert health.status(root, options).failed_checks == []
    shutil.rmtree(f"{root}/gold")
    (said,) = health.status(root, options).failed_checks
    assert "tables are missing: hourly, failures, ledger" in said
