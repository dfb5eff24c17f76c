"""Rounds over made-up events, the tables that they leave, and rounds that are cut short."""

import datetime as dt
import math
import random
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.writer import writer

from tests.pipeline import conftest, stories
from tests.pipeline.events_of_all import events_of_products
from tests.pipeline.saved import save
from waystation.pipeline.gold.cells import CELLS, SLOT
from waystation.pipeline.history import History
from waystation.pipeline.products import product_tables
from waystation.pipeline.refresh import gold_tables, quality
from waystation.pipeline.silver.moves import OPEN
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import pa
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.parts import PartWriter
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.storage.table_log import kept_open
from waystation.pipeline.tables import EVENTS, QUALITY, Table, every

# The checks are those of the hours of the last round.
COMPARED = [table for table in (*every(), *OPEN, *product_tables()) if table is not QUALITY]


def history_at(root: str) -> History:
    """A history; the one session of the tests is started when it is first needed."""
    return History(conftest.session, root)


def events_of_jobs(dice: random.Random, jobs: int) -> list[dict[str, Any]]:
    """Events of which some happened long before they were written."""
    rows = stories.rows(stories.random_events(dice, jobs))
    for row in rows:
        if dice.random() < 0.05:
            row["at"] -= dt.timedelta(minutes=dice.randrange(1, 90))
        row["fields"] = list(row["fields"].items())
    return rows


def events_of_products_over_days(dice: random.Random) -> list[dict[str, Any]]:
    """Events of the other products over some days, of which some happened days before."""
    rows = events_of_products(dice.randrange(1_000_000))
    for row in rows:
        row["recorded_at"] = stories.START + (row["recorded_at"] - stories.START) * 40
        row["at"] = row["recorded_at"]
        row["date"] = row["recorded_at"].date()
        if dice.random() < 0.05:
            row["at"] -= dt.timedelta(hours=dice.randrange(1, 90))
    return sorted(rows, key=lambda row: (row["recorded_at"], row["seq"]))


def visitors(dice: random.Random, room: str = "sale") -> list[dict[str, Any]]:
    """Events of visitors over five days, of which some happened long before they were written."""
    rows = [
        row for row in events_of_products(dice.randrange(1_000)) if row["product"] == "waitingroom"
    ]
    for row in rows:
        row["recorded_at"] = stories.START + (row["recorded_at"] - stories.START) * 2_000
        row["at"], row["date"] = row["recorded_at"], row["recorded_at"].date()
        row["queue"], row["stream"] = room, f"waitingroom:{room}:events"
        if dice.random() < 0.05:
            row["at"] -= dt.timedelta(hours=dice.randrange(1, 90))
    return sorted(rows, key=lambda row: (row["recorded_at"], row["seq"]))


def in_parts(dice: random.Random, rows: list[dict[str, Any]], parts: int) -> Iterator[list[Any]]:
    """Each stream cut at places of its own, so that one is read later than the other."""
    streams: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        streams.setdefault(row["stream"], []).append(row)
    cuts = {
        stream: [0, *sorted(dice.choices(range(len(mine) + 1), k=parts - 1)), len(mine)]
        for stream, mine in streams.items()
    }
    for part in range(parts):
        yield [
            row
            for stream, mine in streams.items()
            for row in mine[cuts[stream][part] : cuts[stream][part + 1]]
        ]


def keep(root: str, rows: list[dict[str, Any]], batch: int) -> None:
    """Store events."""
    events = pa.Table.from_pylist(rows, schema=schema_of(EVENTS.schema))
    save(events, root, EVENTS, BatchId("bronze-test", batch))


def refresh(history: History) -> None:
    """What a round does after it has stored events."""
    with kept_open():
        gold_tables.fold_after_counting(history)
        gold_tables.refresh(history)


def failed_checks(root: str) -> list[str]:
    """What the last round found wrong with the tables."""
    return [str(each) for each in quality.last_checks(root) if not each.passed]


def rows_of(root: str, table: Table) -> list[tuple[Any, ...]]:
    """The rows of a table, whatever their order."""
    columns = [name for name in table.names if name not in ("checked_at", "counted_from")]
    rows = delta.read_arrow(root, table, columns).to_pylist()
    return sorted((tuple(_rounded(row[name]) for name in columns) for row in rows), key=str)


def _rounded(value: Any) -> Any:
    """The order in which numbers are added decides about the last digits."""
    if isinstance(value, float) and value:
        return round(value, 9 - math.ceil(math.log10(abs(value))))
    return value


def tables_at(root: str) -> dict[str, list[Any]]:
    """All rows of a history, with the sums; those of old slots go when rounds come."""
    sums = [row for row in rows_of(root, CELLS) if row[0] != SLOT.name]
    return {**{table.name: rows_of(root, table) for table in COMPARED}, CELLS.name: sums}


@contextmanager
def cut_short(is_time: Callable[[list[str]], bool]) -> Generator[list[str]]:
    """Interrupt the block before it commits to a table once more, when it is time.

    That is decided by the names of the tables that it has committed to, which are also what it
    gets, to be looked at afterwards.
    """
    done: list[str] = []

    def counted(write: Any, path_of: Callable[..., str]) -> Any:
        def wrapped(*given: Any, **more: Any) -> Any:
            if is_time(done):
                raise KeyboardInterrupt
            answer = write(*given, **more)
            done.append(PurePosixPath(path_of(*given)).name)
            return answer

        return wrapped

    def uri(table: Any, *_: Any) -> str:
        return str(table if isinstance(table, str) else table.table_uri)

    with pytest.MonkeyPatch.context() as patch:
        name = "create_write_transaction"
        patch.setattr(DeltaTable, name, counted(getattr(DeltaTable, name), uri))
        # Called once, at the beginning of every other write.
        begin = "try_get_table_and_table_uri"
        patch.setattr(writer, begin, counted(getattr(writer, begin), uri))
        yield done


@contextmanager
def reads(column: str | None = None) -> Generator[dict[str, set[str]]]:
    """The days of which files are read in the block, by table; with a column, only where that is
    asked for by its name."""
    seen: dict[str, set[str]] = {}

    def noting(read: Any, place: int) -> Any:
        def wrapped(*given: Any, **more: Any) -> Any:
            table, names = given[place], given[place + 1]
            is_mine = column is None or column in (more.get("columns") or ())
            if is_mine and table.partitions and names:
                days = (name.partition("/")[0] for name in names)
                seen.setdefault(table.name, set()).update(days)
            return read(*given, **more)

        return wrapped

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delta, "read_files", noting(delta.read_files, 1))
        patch.setattr(delta, "read_with_spark", noting(delta.read_with_spark, 2))
        yield seen


@contextmanager
def written_here() -> Generator[set[str]]:
    """The tables of which this process writes files in the block."""
    seen: set[str] = set()
    begin, write = "try_get_table_and_table_uri", PartWriter.write
    whole = getattr(writer, begin)

    def noted(self: Any, batch: Any) -> None:
        seen.add(PurePosixPath(self._root).name)
        write(self, batch)

    def begun(table: Any, *given: Any) -> Any:
        seen.add(PurePosixPath(str(getattr(table, "table_uri", table))).name)
        return whole(table, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PartWriter, "write", noted)
        patch.setattr(writer, begin, begun)
        yield seen
