"""Sums of all time cost what has changed: a round reads no more days than those of its rows."""

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest

from tests.pipeline.rounds import history_at, keep, reads, refresh, rows_of
from tests.pipeline.stories import START
from waystation.pipeline.gold.cells import CELLS, SLOT
from waystation.pipeline.products.files import ADDED_FILES, FILE_DAYS, FILES
from waystation.pipeline.refresh import gold_tables
from waystation.pipeline.storage.table_log import kept_open
from waystation.pipeline.tables import ITEMS

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
        gold_tables.fold(history)
        with reads() as seen:
            gold_tables.catch_up(history, target_ms=1_000)
    its_day = {f"date={(START + dt.timedelta(days=4)).date()}"}
    assert seen[ADDED_FILES.name] == its_day
    assert seen.get(ITEMS.name, its_day) == its_day
    found = tables(root)
    gold_tables.catch_up(history, target_ms=1_000, everything=True)
    assert found == tables(root)
