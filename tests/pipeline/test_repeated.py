"""What is done twice, or cut short and done again, leaves what it leaves when it is done once."""

import datetime as dt
import shutil
from collections.abc import Callable
from typing import Any

import pytest
from redis import Redis

from tests.pipeline import rounds
from tests.pipeline.rounds import cut_short, failed_checks, history_at, keep, rows_of, tables_at
from tests.pipeline.saved import save
from tests.pipeline.stories import START, StoryEvent, rows
from tests.support.size import size
from waystation.core.errors import InvalidOption
from waystation.pipeline.history import History
from waystation.pipeline.maintenance.compaction import compact
from waystation.pipeline.maintenance.erasure import retain
from waystation.pipeline.maintenance.rebuild import rebuild
from waystation.pipeline.refresh import gold_tables, stale_hours
from waystation.pipeline.refresh.fold import drop_changes
from waystation.pipeline.refresh.ledger import STREAM
from waystation.pipeline.refresh.snapshot import Snapshot, take_snapshot
from waystation.pipeline.silver.moves import OPEN, STEPS
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import pa
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.schemas import schema_of
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
        gold_tables.fold_after_counting(history)
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


def test_a_fold_whose_files_were_deleted_before_it_names_them_is_refused_and_repeated(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    history, record = history_at(root), stale_hours.record
    keep(root, events(*life("1"), *life("2")[:2]), 0)

    def deleted(*given: Any, **more: Any) -> None:
        drop_changes(root)
        record(*given, **more)

    monkeypatch.setattr(stale_hours, "record", deleted)
    with pytest.raises(InvalidOption, match="not any more"):
        rounds.refresh(history)
    monkeypatch.undo()
    rounds.refresh(history)
    found = tables_at(root)
    rebuild(history)
    assert tables_at(root) == found


DAY_MS = 86_400_000
MAINTENANCE: dict[str, Callable[[History], object]] = {
    "rebuild": rebuild,
    "retain": lambda history: retain(history, START.date() + dt.timedelta(days=1)),
    "compact": compact,
}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A history of two days and rounds, whose ledger has seen snapshots."""
    root = str(tmp_path_factory.mktemp("seen") / "history")
    keep(root, events(*life("1"), *life("2", DAY_MS)), 0)
    rounds.refresh(history_at(root))
    keep(root, events(*life("3", 1_000)), 1)
    rounds.refresh(history_at(root))
    found = delta.read_arrow(root, LEDGER, LEDGER.names).to_pylist()
    known: dict[str, Any] = {"visible": 0, "lost": 0, "lost_ids": [], "clean": True}
    table = pa.Table.from_pylist(
        [{**row, **known} for row in found], schema=schema_of(LEDGER.schema)
    )
    save(table, root, LEDGER, BatchId("test", 1), replace=True)
    return root


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", MAINTENANCE)
def test_what_is_cut_short_before_any_commit_and_repeated_leaves_the_same(
    seen: str, root: str, name: str
) -> None:
    act, point, is_cut = MAINTENANCE[name], 0, True
    once = history_at(shutil.copytree(seen, f"{root}-once"))
    act(once)
    rounds.refresh(once)
    while is_cut:
        history = history_at(shutil.copytree(seen, f"{root}-{point}"))
        with cut_short(lambda done, most=point: len(done) == most) as done:
            try:
                act(history)
                is_cut = False
            except KeyboardInterrupt:
                pass
        if point % 2:
            # A round may come in between.
            rounds.refresh(history)
        act(history)
        rounds.refresh(history)
        assert tables_at(history.root) == tables_at(once.root), (point, done)
        point = max(point + 1, size(2 * point, full=0))
