"""A history that is written to again and again has few files."""

import datetime as dt
import math
import os
import random
import time
from collections import Counter
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import (
    DeltaTable,
    write_deltalake,  # pyright: ignore[reportUnknownVariableType]
)

from tests.pipeline.rounds import history_at
from tests.pipeline.saved import save
from waystation.pipeline.gold.files import EVER, SETTLES, File, Span, files_by
from waystation.pipeline.maintenance import compaction
from waystation.pipeline.maintenance.compaction import compact, compact_where_needed
from waystation.pipeline.storage import delta, rewriting
from waystation.pipeline.storage.arrow import pa, pc
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.parts import PartWriter
from waystation.pipeline.storage.rewriting import Rows, Where
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.tables import (
    EVENTS,
    FAILURES,
    FIELD_VALUES,
    HOURLY,
    ITEMS,
    PAYLOADS,
    Table,
)

# pyright: reportPrivateUsage=false
MONDAY, TUESDAY = dt.date(2026, 3, 2), dt.date(2026, 3, 3)


@pytest.fixture(autouse=True)
def soon_crowded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "MANY", 3)


def write_entry(root: str, day: dt.date, batch: int) -> None:
    rows = [{"stream": "s", "entry_id": f"{batch}-0", "date": day}]
    with PartWriter(EVENTS.path(root), EVENTS.schema, EVENTS.partitions) as writer:
        writer.write(pa.RecordBatch.from_pylist(rows, schema=schema_of(EVENTS.schema)))
    identity = BatchId("bronze", batch)
    place = EVENTS.path(root)
    delta.commit(place, EVENTS.schema, writer.parts, identity, partitions=EVENTS.partitions)


def files(root: str, day: dt.date) -> int:
    return sum(f"date={day}" in file for file in DeltaTable(EVENTS.path(root)).file_uris())


def answer(root: str) -> None:
    """Write a table of gold anew, as every round does."""
    delta.open_table(FAILURES.path(root), FAILURES.schema)
    rows = pa.Table.from_pylist([{"fingerprint": "f"}], schema=schema_of(FAILURES.schema))
    write_deltalake(FAILURES.path(root), rows, mode="overwrite")


def test_a_crowded_day_is_compacted_and_the_others_are_left_alone(root: str) -> None:
    for batch in range(6):
        write_entry(root, MONDAY, batch)
    for batch in range(6, 9):
        write_entry(root, TUESDAY, batch)

    (freed,) = compact_where_needed(history_at(root))

    assert (freed.table, freed.before, freed.after) == ("events", 9, 4)
    assert (files(root, MONDAY), files(root, TUESDAY)) == (1, 3)
    assert len(delta.read_arrow(root, EVENTS, ("entry_id",))) == 9
    assert compact_where_needed(history_at(root)) == []


def write_hours(root: str, day: int, hours: Sequence[int], tasks: int = 1) -> None:
    """A file of each hour, of each task, as rounds leave them."""
    for hour, task in product(hours, range(tasks)):
        at = dt.datetime(2026, 3, day, hour, tzinfo=dt.UTC)
        rows = pa.Table.from_pylist([{"product": "bullmq", "queue": f"q{task}", "hour": at}])
        batch = delta.last_batch(HOURLY.path(root), "gold") or 0
        save(rows, root, HOURLY, BatchId("gold", batch + 1))


def hourly_files(root: str) -> Counter[dt.date]:
    """The files of each day; no file has rows of two."""
    days = [
        (each.span.first.date(), each.span.last.date()) for each in files_by(HOURLY, root, "hour")
    ]
    assert all(first == last for first, last in days)
    return Counter(last for _, last in days)


def test_hours_of_a_day_become_one_file_once_hardly_anything_happens_in_it(root: str) -> None:
    """A round counts all anew that is in the same file as what it has changed."""
    save(no_rows(EVENTS), root, EVENTS, BatchId("bronze", 0))
    write_hours(root, 2, range(24), tasks=2)
    write_hours(root, 3, range(SETTLES.seconds // 3600))
    assert compact_where_needed(history_at(root)) == []
    write_hours(root, 3, [SETTLES.seconds // 3600])
    compact_where_needed(history_at(root))
    assert hourly_files(root) == {MONDAY: 1, TUESDAY: 7}
    assert delta.count(HOURLY.path(root)) == 48 + 7


def test_days_of_tables_by_sums_are_never_in_one_file(root: str) -> None:
    save(no_rows(EVENTS), root, EVENTS, BatchId("bronze", 0))
    for day in range(2, 7):
        write_hours(root, day, [0])
    compact(history_at(root))
    assert set(hourly_files(root).values()) == {1}


def test_a_row_is_rewritten_seldom_however_many_files_come() -> None:
    dice, written, files = random.Random(5), Counter[str](), list[File]()
    for number in range(3_000):
        ever = Span(*EVER)
        files.append(File(f"{number}", ever, dice.choice([900, 1_000, 40_000])))
        files.sort(key=lambda each: each.size)
        joined = compaction._worth_joining(files, 3)
        if joined:
            files = files[len(joined) :]
            files.append(
                File(
                    " ".join(each.path for each in joined), ever, sum(each.size for each in joined)
                )
            )
            written.update(files[-1].path.split())
    doublings = math.log2(sum(each.size for each in files) / 900)
    assert len(files) <= 3 + doublings
    assert max(written.values()) <= doublings


def no_rows(table: Table) -> Any:
    return pa.Table.from_pylist([], schema=schema_of(table.schema))


def test_the_number_of_files_stays_bounded_however_often_a_round_is_run(root: str) -> None:
    for batch in range(12):
        write_entry(root, MONDAY, batch)
        compact_where_needed(history_at(root))
        assert files(root, MONDAY) <= compaction.MANY
    assert delta.last_batch(EVENTS.path(root), "bronze") == 11


@pytest.mark.parametrize(
    ("table", "column"), [(ITEMS, "job_id"), (PAYLOADS, "job_id"), (FIELD_VALUES, "value")]
)
def test_columns_by_which_rows_are_found_have_bloom_filters_before_and_after(
    root: str, table: Table, column: str
) -> None:
    for batch in range(4):
        rows = pa.Table.from_pylist(
            [{column: f"{batch}-{n}", "date": MONDAY} for n in range(100)],
            schema=schema_of(table.schema),
        )
        save(rows, root, table, BatchId("silver", batch))
    assert with_filters(table.path(root)) == {column: 4}
    (freed,) = compact_where_needed(history_at(root))
    assert (freed.before, freed.after) == (4, 1)
    assert with_filters(table.path(root)) == {column: 1}


def test_bloom_filters_stay_where_rows_are_deleted(root: str) -> None:
    rows = pa.Table.from_pylist(
        [{"job_id": f"{n}", "date": MONDAY} for n in range(100)], schema=schema_of(ITEMS.schema)
    )
    save(rows, root, ITEMS, BatchId("silver", 1))

    history, first = history_at(root), frozenset((f"{n}", MONDAY) for n in range(10))
    assert rewriting.delete(history, {ITEMS: Rows(("job_id", "date"), first)}) == {"items": 10}
    assert with_filters(ITEMS.path(root)) == {"job_id": 1}
    mine = Where(pc.field("job_id") == "50", ("job_id",))
    assert rewriting.delete(history, {ITEMS: mine}) == {"items": 1}
    assert with_filters(ITEMS.path(root)) == {"job_id": 1}
    left = delta.read_arrow(root, ITEMS, ("job_id",))["job_id"].to_pylist()
    assert sorted(left, key=int) == [f"{n}" for n in range(10, 100) if n != 50]


def with_filters(path: str) -> dict[str, int]:
    """The columns with bloom filters, and in how many row groups."""
    files = DeltaTable(path).file_uris()
    found = duckdb.execute(
        "select path_in_schema, count(*) from parquet_metadata($1) "
        "where bloom_filter_offset is not null group by all",
        [files],
    )
    return dict(found.fetchall())


def test_what_was_replaced_long_ago_is_deleted(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "MOST_OLD", 4)
    for _ in range(6):
        answer(root)
    lying = Path(FAILURES.path(root)).glob
    # Somebody may still read what was replaced just now.
    (freed,) = compact_where_needed(history_at(root))
    assert (freed.removed, len(list(lying("*.parquet")))) == (0, 6)

    monkeypatch.setattr(compaction, "REWRITTEN_KEEP_H", 0)
    (freed,) = compact_where_needed(history_at(root))

    assert (freed.removed, len(list(lying("*.parquet")))) == (5, 1)
    assert compact_where_needed(history_at(root)) == []


def test_what_a_fold_writes_for_hours_is_not_deleted_before_it_commits(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "MOST_OLD", 0)
    save(no_rows(EVENTS), root, EVENTS, BatchId("bronze", 0))
    for aged, is_there in ((23, True), (25, False)):
        for _ in range(3):
            answer(root)
        written = Path(FAILURES.path(root), f"part-{aged}.parquet")
        written.write_bytes(b"being written")
        then = time.time() - aged * 3600
        os.utime(written, (then, then))
        compact_where_needed(history_at(root))
        assert written.exists() is is_there
