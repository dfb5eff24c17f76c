"""What a rebuild keeps, what a status misses, and what counts as retried."""

import datetime as dt
import shutil
from typing import Any

from tests.pipeline.rounds import history_at, keep, refresh
from tests.pipeline.saved import save
from tests.pipeline.stories import START, StoryEvent, rows
from waystation.pipeline import health
from waystation.pipeline.history import History
from waystation.pipeline.maintenance.rebuild import rebuild
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import pa
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.tables import FAILURES, LEDGER

LIFE = ["added", "waiting", "active", "failed", "waiting", "active", "completed"]


def a_history(root: str) -> History:
    """A job that failed, was retried by hand, and completed."""
    told = [StoryEvent(n * 100, "mail", "1", event) for n, event in enumerate(LIFE)]
    found = rows(told)
    for row in found:
        row["fields"] = list(row["fields"].items())
    found[3]["fields"] = [("failedReason", "ValueError: no")]
    found[4]["fields"] = [("prev", "failed")]
    keep(root, found, 0)
    history = history_at(root)
    refresh(history)
    return history


def ledger(root: str) -> list[dict[str, Any]]:
    return delta.read_arrow(root, LEDGER, LEDGER.names).to_pylist()


def test_a_rebuild_keeps_what_only_snapshots_knew(root: str) -> None:
    history = a_history(root)
    (row,) = ledger(root)
    known: dict[str, Any] = {**row, "visible": 0, "lost": 0, "lost_ids": [], "clean": True}
    table = pa.Table.from_pylist([known], schema=schema_of(LEDGER.schema))
    save(table, root, LEDGER, BatchId("test", 1), replace=True)
    rebuild(history)
    assert ledger(root) == [known]
    # An hour in which something else happened since is looked at again.
    table = pa.Table.from_pylist([{**known, "terminal": 7}], schema=schema_of(LEDGER.schema))
    save(table, root, LEDGER, BatchId("test", 2), replace=True)
    rebuild(history)
    assert [each["visible"] for each in ledger(root)] == [None]


def test_a_failure_that_was_retried_by_hand_was_retried(root: str) -> None:
    a_history(root)
    (row,) = delta.read_arrow(root, FAILURES, FAILURES.names).to_pylist()
    assert (row["attempts"], row["retried"], row["recovered"]) == (1, 1, 1)
    assert row["first_at"] == START + dt.timedelta(milliseconds=200)


def test_tables_that_are_missing_fail_the_status(root: str, redis_url: str) -> None:
    options = EventOptions(url=redis_url)
    assert health.status(root, options).failed_checks == []
    a_history(root)
    assert health.status(root, options).failed_checks == []
    shutil.rmtree(f"{root}/gold")
    (said,) = health.status(root, options).failed_checks
    assert "tables are missing: hourly, failures, ledger" in said
