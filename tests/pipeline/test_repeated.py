"""What is done twice, or cut short and done again, leaves what it leaves when it is done once."""

from typing import Any

import pytest
from redis import Redis

from tests.pipeline.rounds import failed_checks, history_at, keep, rows_of
from tests.pipeline.stories import StoryEvent, rows
from waystation.pipeline.history import History
from waystation.pipeline.maintenance.rebuild import rebuild
from waystation.pipeline.refresh import gold_tables
from waystation.pipeline.refresh.ledger import STREAM
from waystation.pipeline.refresh.snapshot import Snapshot, take_snapshot
from waystation.pipeline.silver.moves import OPEN, STEPS
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.table_log import kept_open
from waystation.pipeline.tables import ATTEMPTS, EVENTS, FAILED_ITEMS, HOURLY, ITEMS, LEDGER

pytestmark = pytest.mark.slow

COMPUTED = (ATTEMPTS, ITEMS, FAILED_ITEMS, *OPEN, HOURLY, LEDGER)


TRIES = ("added", "waiting", "active", "retry", "waiting", "active", "completed")
TWICE = "events: every stream entry once"


def events(*stories: StoryEvent) -> list[dict[str, Any]]:
    return [{**row, "fields": list(row["fields"].items())} for row in rows([*stories])]


def life(subject: str, at_ms: int = 0) -> list[StoryEvent]:
    names = ("added", "waiting", "active", "completed")
    return [StoryEvent(at_ms + n, "mail", subject, name) for n, name in enumerate(names)]


def refresh(history: History, snapshot: Snapshot) -> None:
    with kept_open():
        gold_tables.fold(history)
        gold_tables.refresh(history, snapshot)


def computed(root: str) -> dict[str, list[Any]]:
    return {table.name: rows_of(root, table) for table in COMPUTED}


def looks(root: str) -> list[str]:
    """The jobs that were found removed, once for each event that says so."""
    found = delta.read_arrow(root, EVENTS, ("job_id", "stream")).to_pylist()
    return sorted(row["job_id"] for row in found if row["stream"] == STREAM)


def test_a_refresh_with_the_same_snapshot_changes_nothing_however_late_events_come(
    root: str, store: Redis, redis_url: str
) -> None:
    """Jobs were removed without an event; entries come twice, and after those that follow them."""
    history, options = history_at(root), EventOptions(url=redis_url, products="bullmq")
    store.xadd("bull:mail:events", {"event": "added", "jobId": "0"})
    snapshot = take_snapshot(options, is_first=True)
    ended, later = life("ended"), life("late", 1_000)
    # The first claim of this job is stored after the second, with which it ended.
    tries = [StoryEvent(5_000 + n, "mail", "tried", name) for n, name in enumerate(TRIES)]
    hour_ms = 3_600_000
    batches = [
        [*life("gone")[:2], *ended, *tries[:2], *tries[4:]],
        [*life("gone too", hour_ms)[:2], ended[-1], *later[:1], *later[2:]],
        [later[1], *tries[2:4], StoryEvent(2 * hour_ms, "mail", "ended", "removed")],
        [StoryEvent(2 * hour_ms + 1, "mail", "gone", "removed")],
    ]
    found: dict[str, list[Any]] = {}
    for number, batch in enumerate(batches):
        keep(root, events(*batch), number)
        for _ in range(2):
            refresh(history, snapshot)
        found = computed(root)
        refresh(history, snapshot)
        assert computed(root) == found, number
        assert looks(root) == ["gone", "gone too"][: number + 1]
        assert rows_of(root, STEPS) == []
        assert {each.partition(": wanted")[0] for each in failed_checks(root)} <= {TWICE}
    rebuild(history)
    assert computed(root) == found
