"""Sums are small however much they count, and a round finds them by the days of its rows alone."""

import datetime as dt
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.rounds import (
    COMPARED,
    events_of_jobs,
    history_at,
    keep,
    reads,
    refresh,
    rows_of,
)
from tests.pipeline.routing_stories import some_days
from tests.pipeline.stories import START
from tests.pipeline.summed import summed
from waystation.pipeline.gold import cells, sums
from waystation.pipeline.gold.cells import CELLS, QUARTER_MS, SLOT
from waystation.pipeline.gold.turns import SLOT_S as TURN_S
from waystation.pipeline.products.files import ADDED_FILES, FILE_DAYS, FILES
from waystation.pipeline.products.routing import ROUTE_DAYS, ROUTES
from waystation.pipeline.refresh import gold_tables
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.table_log import kept_open
from waystation.pipeline.tables import ITEMS, SLOTS

pytestmark = pytest.mark.slow

DAY_MS = 86_400_000


def event(at_ms: int, product: str, job_id: str, name: str, **fields: str) -> dict[str, Any]:
    at = START + dt.timedelta(milliseconds=at_ms)
    return {
        "product": product,
        "queue": "work",
        "stream": f"{product}:events",
        "entry_id": f"{int(at.timestamp() * 1000)}-0",
        "seq": 0,
        "recorded_at": at,
        "at": at,
        "event": name,
        "job_id": job_id,
        "attempt": 1,
        "worker": "ada" if name == "active" else None,
        "fields": list(fields.items()),
        "version": 1,
        "date": at.date(),
    }


def file_of(day: int, end: str) -> Iterator[dict[str, Any]]:
    """A file that is added and ends on a day; the earlier the day, the later in it."""
    at, name = day * DAY_MS + (20 - day) * 60_000, f"f{day}"
    yield event(at, "files", name, "waiting", path=f"/in/{name}.csv", size="7")
    yield event(at + 5, "files", name, "active")
    yield event(at + 9, "files", name, end)


def tables(root: str) -> dict[str, list[Any]]:
    """The tables by sums about files, and the sums but for those of old slots."""
    sums = [row for row in rows_of(root, CELLS) if row[0] != SLOT.name]
    return {**{table.name: rows_of(root, table) for table in (FILE_DAYS, FILES)}, "sums": sums}


def test_a_round_that_redrives_an_old_file_reads_the_day_of_this_file_alone(root: str) -> None:
    history = history_at(root)
    for day in range(4):
        keep(root, [*file_of(day, "completed")], day)
    # It has ended last, and is open again.
    keep(root, [*file_of(4, "dead")], 4)
    refresh(history)
    keep(root, [event(5 * DAY_MS, "files", "f4", "redriven")], 5)
    with kept_open():
        gold_tables.fold_after_counting(history)
        with reads() as seen:
            gold_tables.catch_up(history, target_ms=1_000)
    its_day = {f"date={(START + dt.timedelta(days=4)).date()}"}
    assert seen[ADDED_FILES.name] == its_day
    assert seen.get(ITEMS.name, its_day) == its_day
    found = tables(root)
    gold_tables.catch_up(history, target_ms=1_000, everything=True)
    assert found == tables(root)


MANY, WORKERS = 5_000, 3
HISTOGRAM = 128 + 64 * 13
"""The buckets that all milliseconds of a quarter of an hour have."""
MOST = {
    # All of them happen within ten minutes.
    ("hour", "ready"): 600_000 // QUARTER_MS,
    ("hour", "wait"): HISTOGRAM,
    ("hour", "run"): HISTOGRAM,
    ("hour", "worker"): WORKERS,
    **{("tenant", name): 600 // TURN_S for name in ("served", "started", "came", "went")},
    ("tenant", "wait"): HISTOGRAM,
    ("route_day", "worker"): WORKERS,
    ("route", "worker"): WORKERS,
    ("file", "run"): HISTOGRAM,
}
"""The most buckets that a row has, by its kind and by what they are."""

_IN_TEN_MINUTES = "timestamp_millis(1772404800000 + cast(id * 119 as bigint))"
_WORKER = f"concat('w', id % {WORKERS})"
_MS = "cast(pow(2, id * 20 / 5000) as bigint)"
_OF = ("'any' as product", "'work' as queue")
_JOB = ("cast(id as string) as job_id", "date'2026-03-01' as `date`")
_TENANT = ("'acme/ada' as `group`", "2D as weight")
_MADE = {
    "steps": (
        *(*_OF, f"{_IN_TEN_MINUTES} as `at`", "'' as earlier", *_TENANT),
        *("if(id % 2 = 0, 'waiting', 'active') as event", "1.5D as cost", "0D as more"),
        *(f"false as {name}" for name in ("birth", "again", "repeated", "doubled")),
    ),
    "attempts": (
        *(*_OF, f"{_IN_TEN_MINUTES} as started_at", f"{_IN_TEN_MINUTES} as ended_at"),
        *(f"{_WORKER} as worker", "'completed' as outcome"),
        *(f"{_IN_TEN_MINUTES} as free_at", *_TENANT),
        *(f"{_MS} as wait_ms", f"{_MS} as run_ms"),
    ),
    "routed": (
        *(*_OF, *_JOB, "'added' as origin", "'gpu' as target", f"array({_WORKER}) as workers"),
        "timestamp_micros(1772404860000000 + id) as ready_at",
        *(f"cast(null as timestamp) as {name}" for name in ("started_at", "ended_at")),
        "timestamp'2026-03-02 00:00:00' as last_recorded_at",
    ),
    "files": (
        *(*_OF, *_JOB, "'/in' as directory", "'csv' as type", "7 as size"),
        *("'completed' as state", f"{_MS} as run_ms"),
        *(f"{_IN_TEN_MINUTES} as added_at", f"{_IN_TEN_MINUTES} as ended_at"),
    ),
}


# pyright: reportPrivateUsage=false
def parts_of_rows() -> set[tuple[str, str]]:
    """All histograms and sets that rows of silver are counted in."""
    every = (*cells._OF_STEP, *cells._OF_ATTEMPT, *cells._OF_FAILED, *cells._OF_PLACE)
    every += (*cells._OF_ROUTED, *cells._OF_ROUTED_BY, *cells._OF_FILE)
    every += (*cells._TURN_OF_STEP, *cells._TURN_OF_ATTEMPT)
    return {(each["kind"].strip("'"), each["part"].strip("'")) for each in every if "part" in each}


def test_no_row_has_more_buckets_than_its_kind_allows_however_much_it_counts(
    spark: SparkSession, root: str
) -> None:
    rows = {name: spark.range(MANY).selectExpr(*columns) for name, columns in _MADE.items()}
    found = Counter[tuple[str, str]]()
    for row in summed(spark, root, **rows)(CELLS):
        many = Counter((row["kind"], each["part"]) for each in row["parts"])
        found |= many
    assert found.keys() == MOST.keys() == parts_of_rows()
    assert {each: many for each, many in found.items() if many > MOST[each]} == {}


def test_sums_of_another_form_are_counted_anew_and_not_twice(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(root, some_days(random.Random(5), days=2, jobs=12), 0)
    with monkeypatch.context() as before:
        before.setattr(sums, "APPLICATION", "gold")
        refresh(history_at(root))
    wanted = {table.name: rows_of(root, table) for table in (ROUTES, ROUTE_DAYS, CELLS)}
    assert all(wanted.values())
    refresh(history_at(root))
    assert delta.last_batch(CELLS.path(root), sums.APPLICATION) is not None
    assert {table.name: rows_of(root, table) for table in (ROUTES, ROUTE_DAYS, CELLS)} == wanted


def test_an_event_ahead_of_its_time_takes_no_row_of_other_hours_away(root: str) -> None:
    history, ahead = history_at(root), dt.datetime.now(dt.UTC) + dt.timedelta(days=40)
    keep(root, events_of_jobs(random.Random(7), 12), 0)
    refresh(history)
    before = {table.name: rows_of(root, table) for table in (*COMPARED, CELLS)}
    assert before[SLOTS.name]
    at_ms = (ahead - START) // dt.timedelta(milliseconds=1)
    keep(root, [event(at_ms, "bullmq", "early", "added")], 1)
    refresh(history)
    found = {table.name: rows_of(root, table) for table in (*COMPARED, CELLS)}
    missing = {name: {*map(str, before[name])} - {*map(str, found[name])} for name in before}
    assert {name: rows for name, rows in missing.items() if rows} == {}
    # It is there, too, and counts once its time has come.
    hours = delta.read_arrow(root, SLOTS, ("hour",))["hour"].to_pylist()
    assert max(hours).date() == ahead.date()
