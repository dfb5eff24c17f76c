"""Rounds one after the other give the tables that a rebuild of all events gives."""

import datetime as dt
import random
import shutil
from collections import Counter
from contextlib import AbstractContextManager
from itertools import count
from typing import Any, NamedTuple

import pytest
from redis import Redis

from tests.pipeline import stories
from tests.pipeline.batches import run_round
from tests.pipeline.events_of_all import events_of_files
from tests.pipeline.rounds import (
    COMPARED,
    cut_short,
    events_of_jobs,
    events_of_products_over_days,
    failed_checks,
    history_at,
    in_parts,
    keep,
    reads,
    refresh,
    rows_of,
    tables_at,
    visitors,
    written_here,
)
from tests.pipeline.routing_stories import some_days
from tests.pipeline.stories import StoryEvent
from tests.pipeline.turn_stories import events_of_turns
from waystation.pipeline.gold import sums
from waystation.pipeline.maintenance.rebuild import rebuild, refresh_all
from waystation.pipeline.products.files import ADDED_FILES, FILE_DAYS, FILES
from waystation.pipeline.products.room_places import PLACES
from waystation.pipeline.products.waitingroom import FAIRNESS, VISITS
from waystation.pipeline.runner import RunOptions
from waystation.pipeline.silver.moves import OPEN_ITEMS, STEPS
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.storage import delta, table_log
from waystation.pipeline.tables import (
    ATTEMPTS,
    EVENTS,
    FAILED_ITEMS,
    FAILURES,
    HOURLY,
    ITEMS,
    LEDGER,
    SLOTS,
    Table,
)

pytestmark = pytest.mark.slow

Rows = list[dict[str, Any]]
Tables = dict[str, list[Any]]


def dead_letters(dice: random.Random) -> Rows:
    """Jobs that fail and become dead letters in one instant, which are two events."""
    life = [(0, "added"), (0, "waiting"), (5, "active"), (9, "failed"), (9, "dead")]
    births = sorted(dice.randrange(3_600_000) for _ in range(4))
    events = [
        StoryEvent(at + ms, "dead", str(number), event)
        for number, at in enumerate(births)
        for ms, event in life
    ]
    return [{**row, "fields": [("failedReason", "broken")]} for row in stories.rows(events)]


def other_files(dice: random.Random) -> Rows:
    """Events of files over eight days, in a stream of their own."""
    rows = events_of_files(dice, 60)
    for row in rows:
        row["stream"], row["queue"] = "files:others:events", f"other {row['queue']}"
    return rows


class Ran(NamedTuple):
    """A history that some rounds have made, and what was seen on the way."""

    root: str
    events: Rows
    failed: list[str]
    """Checks that have failed in any of the rounds."""
    here: set[str]
    """Tables of which this process has written files, instead of Spark's tasks."""
    idle: list[str]
    """Tables that a round without news has written."""
    found: Tables
    """The tables after the rounds."""
    refreshed: Tables
    """The same after all of gold was computed again."""
    rebuilt: Tables
    """The same after a rebuild."""
    one_round: str
    """A copy of the history as the first round has left it."""
    more: Rows
    """What the rounds after it were about."""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Rounds over the events of every product.

    The second is cut short, then what finishes it; the last has only visitors.
    """
    dice, root = random.Random(3), str(tmp_path_factory.mktemp("history"))
    history = history_at(root)
    jobs = [*events_of_jobs(dice, 100), *dead_letters(dice), *events_of_turns()]
    mine = [*jobs, *events_of_products_over_days(dice), *some_days(dice, jobs=40)]
    files = [row for row in mine if row["product"] == "files"] + other_files(dice)
    rooms = [row for row in mine if row["product"] == "waitingroom"] + visitors(dice, "fair")
    others = [row for row in mine if row["product"] not in ("files", "waitingroom")]
    of_files = [*in_parts(dice, files, 2), []]
    of_others = [*in_parts(dice, others, 2), []]
    by_round = zip(of_files, of_others, in_parts(dice, rooms, 3), strict=True)
    parts = [[row for some in each for row in some] for each in by_round]
    with written_here() as here:
        keep(root, parts[0], 0)
        refresh(history)
        failed = failed_checks(root)
        one_round = shutil.copytree(root, f"{root}-one-round")
        for batch, table in ((1, PLACES), (2, OPEN_ITEMS)):
            keep(root, parts[batch], batch)
            with _cut_short_after(table), pytest.raises(KeyboardInterrupt):
                refresh(history)
        with pytest.MonkeyPatch.context() as patch:
            # Counting all events ever again would hold up a run while its streams are trimmed.
            patch.delattr(sums, "count_all")
            refresh(history)
        failed += failed_checks(root)
    found, before = tables_at(root), versions(root)
    refresh(history)
    idle = [name for name, version in versions(root).items() if version != before[name]]
    refresh_all(history)
    refreshed = tables_at(root)
    rebuild(history)
    events = [*files, *others, *rooms]
    more = [row for part in parts[1:] for row in part]
    rebuilt = tables_at(root)
    return Ran(root, events, failed, here, idle, found, refreshed, rebuilt, one_round, more)


def _cut_short_after(table: Table) -> AbstractContextManager[object]:
    return cut_short(lambda done: table.name in done)


def versions(root: str) -> dict[str, int | None]:
    return {table.name: table_log.version(table.path(root)) for table in COMPARED}


def differing(first: Tables, second: Tables) -> set[str]:
    return {name for name in first if first[name] != second[name]}


def test_rounds_even_interrupted_ones_give_the_tables_of_a_rebuild(ran: Ran) -> None:
    assert len(ran.found[FAILED_ITEMS.name]) > 5
    # Gaps and jobs come with streams, which these events have not been read from.
    assert {name for name, rows in ran.found.items() if not rows} <= WITHOUT_ROWS
    # A rebuild makes the slots of the last day only.
    assert differing(ran.found, ran.rebuilt) <= {SLOTS.name}


WITHOUT_ROWS = {"gaps", "payloads", "field_values", "deploys", "recommendations"}


def test_all_of_gold_computed_again_is_what_the_rounds_gave(ran: Ran) -> None:
    assert differing(ran.found, ran.refreshed) <= {SLOTS.name}


def test_every_round_passes_its_checks(ran: Ran) -> None:
    assert ran.failed == []


def test_rows_of_tables_are_written_by_tasks(ran: Ran) -> None:
    # The test itself stores events.
    assert ran.here == {EVENTS.name}


def test_what_fails_and_is_given_up_in_one_instant_has_failed_once(ran: Ran) -> None:
    rows = delta.read_arrow(ran.root, HOURLY, ("queue", "failed")).to_pylist()
    assert sum(row["failed"] for row in rows if row["queue"] == "dead") == 4


def test_a_round_without_news_writes_nothing(ran: Ran) -> None:
    assert set(ran.idle) <= {LEDGER.name}


def test_a_round_that_has_only_visitors_counts_them(ran: Ran) -> None:
    rooms = {row["queue"]: set[str]() for row in ran.events if row["product"] == "waitingroom"}
    for row in ran.events:
        if row["product"] == "waitingroom" and row["event"] == "waiting":
            rooms[row["queue"]].add(row["job_id"])
    visits = delta.read_arrow(ran.root, VISITS, ("queue",))["queue"].to_pylist()
    assert Counter(visits) == {queue: len(ids) for queue, ids in rooms.items()}
    overtaken = delta.read_arrow(ran.root, FAIRNESS, ("overtaken",))["overtaken"].to_pylist()
    assert sum(overtaken) > 0


def test_files_are_counted_as_a_loop_over_their_events_counts_them(ran: Ran) -> None:
    found = Counter[tuple[str, str, str]]()
    for row in delta.read_arrow(ran.root, FILES, FILES.names).to_pylist():
        for name in ("files", "completed", "dead", "bytes"):
            found[row["queue"], row["directory"], name] += row[name]
    wanted = Counter[tuple[str, str, str]]()
    directories: dict[tuple[str, str], str] = {}
    last: dict[tuple[str, str], str] = {}
    for row in ran.events:
        if row["product"] == "files" and row["queue"].startswith("other"):
            fields, key = dict(row["fields"]), (row["queue"], row["job_id"])
            if "path" in fields:
                directories[key] = fields["path"].rpartition("/")[0]
                wanted[row["queue"], directories[key], "files"] += 1
                wanted[row["queue"], directories[key], "bytes"] += int(fields["size"])
            # What is removed after its end keeps the state in which it ended.
            if row["event"] != "removed":
                last[key] = row["event"]
    for key, event in last.items():
        if event in ("completed", "dead"):
            wanted[key[0], directories[key], event] += 1
    others = {key: many for key, many in found.items() if key[0].startswith("other")}
    assert +Counter(others) == +wanted


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_a_round_cut_short_before_any_commit_is_finished_by_the_next(ran: Ran, root: str) -> None:
    for point in count():
        place = f"{root}-{point}"
        shutil.copytree(ran.one_round, place)
        # A part of what the next rounds were about, and the rest before anybody tries again.
        parts = in_parts(random.Random(6), ran.more, 2)
        keep(place, next(parts), 1)
        with cut_short(lambda done, most=point: len(done) == most) as done:
            try:
                refresh(history_at(place))
            except KeyboardInterrupt:
                is_cut = True
            else:
                is_cut = False
        keep(place, next(parts), 2)
        refresh(history_at(place))
        assert differing(tables_at(place), ran.found) <= {SLOTS.name}, (point, done)
        shutil.rmtree(place)
        if not is_cut:
            break


TODAY = dt.datetime(2026, 3, 9, 10, tzinfo=dt.UTC)


def entry_id(at: dt.datetime) -> Any:
    """The next id of a stream at an instant."""
    return f"{int(at.timestamp() * 1000)}-*"


def write_event(store: Redis, hour: int, event: str, queue: str = "mail", **fields: str) -> None:
    entry: dict[Any, Any] = {"event": event, "jobId": "1", **fields}
    store.xadd(f"bull:{queue}:events", entry, id=entry_id(TODAY + dt.timedelta(hours=hour)))


def put(store: Redis, queue: str) -> None:
    """A job that waits in a queue."""
    store.hset(f"bull:{queue}:1", "name", "charge")
    store.lpush(f"bull:{queue}:wait", "1")


def write_day(store: Redis, day: int) -> None:
    """Two jobs of the days before and of this one, of which one fails and is tried again."""
    at = entry_id(TODAY - dt.timedelta(days=8 - day))
    for job, fails in ((f"{day}-a", False), (f"{day}-b", True)):
        again: list[dict[str, str]] = [
            {"event": "retry", "failedReason": f"TimeoutError: no answer to {day}"},
            {"event": "active"},
        ]
        steps = [{"event": "added"}, {"event": "active"}, *(again if fails else [])]
        for entry in [*steps, {"event": "completed"}]:
            store.xadd("bull:daily:events", {**entry, "jobId": job}, id=at)


@pytest.mark.slow
def test_the_ledger_sees_what_becomes_of_jobs_and_a_round_reads_only_the_days_of_its_events(
    root: str, store: Redis, redis_url: str
) -> None:
    """One job was added, claimed and put back in three different hours; another one vanishes."""
    history = history_at(root)
    options = RunOptions(events=EventOptions(url=redis_url), write_back=False)
    for day in range(8):
        write_day(store, day)
    run_round(history, options)
    write_day(store, 8)
    for queue in ("mail", "post"):
        write_event(store, 0, "added", queue)
        write_event(store, 0, "waiting", queue)
    put(store, "post")
    write_event(store, 1, "active")
    write_event(store, 1, "failed", failedReason="card expired")
    with reads() as seen:
        result = run_round(history, options)
    assert (result.events, result.failed_checks) == (14, ())
    read = {name: days for name, days in seen.items() if name in BY_DAY}
    assert EVENTS.name in read
    # What came lately is looked at by the recommendations.
    lately = {f"date={TODAY.date() - dt.timedelta(days=n)}" for n in range(2)}
    assert all(days <= lately for days in read.values()), read
    (failure,) = (row for row in _failures(root) if row["queue"] == "daily")
    assert (failure["attempts"], failure["jobs"]) == (9, 9)
    # There were no events of files.
    assert {versions(root)[table.name] for table in (ADDED_FILES, FILE_DAYS, FILES)} == {None}
    assert _account(root, "mail") == (1, 1, 0, 0)
    assert _account(root, "post") == (1, 0, 1, 0)

    write_event(store, 2, "waiting", prev="failed")
    put(store, "mail")
    # Removed without an event, which a round that is cut short must not forget.
    store.delete("bull:post:1", "bull:post:wait")
    with cut_short(lambda done: LEDGER.name in done), pytest.raises(KeyboardInterrupt):
        run_round(history, options)
    run_round(history, options)
    assert {row[1] for row in rows_of(root, STEPS)} == {"mail"}
    assert _account(root, "mail") == (1, 0, 1, 0)
    assert _account(root, "post") == (1, 0, 0, 0)

    store.delete("bull:mail:1")
    run_round(history, options)
    assert _account(root, "mail") == (1, 0, 0, 1)


BY_DAY = {table.name for table in (EVENTS, ATTEMPTS, ITEMS, FAILED_ITEMS)}


def _account(root: str, queue: str) -> tuple[int, ...]:
    names = ("acknowledged", "terminal", "visible", "lost")
    found = delta.read_arrow(root, LEDGER, (*names, "queue")).to_pylist()
    (row,) = (row for row in found if row["queue"] == queue)
    return tuple(row[name] for name in names)


def _failures(root: str) -> Rows:
    return delta.read_arrow(root, FAILURES, ("queue", "attempts", "jobs")).to_pylist()
