"""Rebuild and backfill: tables computed again from what is stored."""

import datetime as dt
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from deltalake import DeltaTable

from waystation.core.errors import InvalidInput
from waystation.pipeline.history import History
from waystation.pipeline.progress import NoProgress, Progress
from waystation.pipeline.refresh import gold_tables, stale_hours
from waystation.pipeline.refresh.fold import fold, folded_version
from waystation.pipeline.refresh.stale_hours import Hours
from waystation.pipeline.storage import delta, filesystems
from waystation.pipeline.storage.arrow import fs, pa
from waystation.pipeline.storage.opened import kept_open, old_names
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.storage.task_files import replace
from waystation.pipeline.storage.turns import alone
from waystation.pipeline.tables import (
    EVENTS,
    FIELD_VALUES,
    GAPS,
    LEDGER,
    PAYLOADS,
    RENAMED,
    Layer,
    Table,
)


@alone("rebuild")
def rebuild(history: History, progress: Progress | None = None) -> None:
    """Delete silver and gold, and build them again from bronze, of any version."""
    progress = progress or NoProgress()
    for table in (EVENTS, GAPS, PAYLOADS, FIELD_VALUES, LEDGER):
        _take_over(history, table)
    before = delta.read_arrow(history.root, LEDGER, LEDGER.names).to_pylist()
    for layer in (Layer.SILVER, Layer.GOLD):
        files, folder = filesystems.filesystem(f"{history.root}/{layer}")
        if isinstance(files, fs.LocalFileSystem):
            shutil.rmtree(folder, ignore_errors=True)
        elif files.get_file_info(folder).type != fs.FileType.NotFound:
            files.delete_dir(folder)
    progress.begin("folding events into attempts and items")
    fold(history)
    refresh_all(history, progress)
    _restore_snapshots(history, before)


def _take_over(history: History, table: Table) -> None:
    """Give the columns of a table that an older version has written their present names."""
    path = table.path(history.root)
    if not DeltaTable.is_deltatable(path):
        return
    stored = DeltaTable(path)
    before = {RENAMED[name]: name for name in old_names(stored)}
    if not before:
        return
    columns = [each._replace(name=before.get(each.name, each.name)) for each in table.columns]
    old = msgspec.structs.replace(table, columns=tuple(columns), key=())
    names = pa.table(stored.get_add_actions())["path"].to_pylist()
    rows = delta.read_with_spark(history.spark, path, old, names)
    renamed = rows.withColumnsRenamed({name: new for new, name in before.items()})
    replace(renamed, history.root, table, renaming=True)


_COUNTED = ("acknowledged", "terminal", "removed", "duplicated", "gaps")
_FROM_SNAPSHOTS = ("visible", "lost", "lost_ids", "clean")


def _restore_snapshots(history: History, before: Sequence[Mapping[str, Any]]) -> None:
    """Put back what the ledger knew from snapshots, which cannot be computed from events."""
    root = history.root
    known = {_account(row): row for row in before if row["visible"] is not None}
    rows = delta.read_arrow(root, LEDGER, LEDGER.names).to_pylist()
    for row in rows:
        if row["visible"] is None and (same := known.get(_account(row))):
            row |= {name: same[name] for name in _FROM_SNAPSHOTS}
    if known:
        restored = pa.Table.from_pylist(rows, schema=schema_of(LEDGER.schema))
        replace(history.spark.createDataFrame(restored), root, LEDGER)


def _account(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """The jobs of an hour, and what the events say has become of them."""
    return tuple(row[name] for name in (*LEDGER.key, *_COUNTED))


@alone("backfill")
def backfill(
    history: History, first: dt.date, last: dt.date, progress: Progress | None = None
) -> None:
    """Compute the gold tables of some days again from bronze and silver."""
    if first > last:
        raise InvalidInput(f"the first day must not be after the last, got {first} and {last}")
    fold(history)
    start = dt.datetime.combine(first, dt.time(), dt.UTC)
    hours = ((last - first).days + 1) * 24
    starts = tuple(start + dt.timedelta(hours=n) for n in range(hours))
    version = folded_version(history) or 0
    stale_hours.record(history.root, version, Hours(starts), of="-backfill")
    refresh_all(history, progress)


def refresh_all(history: History, progress: Progress | None = None) -> None:
    """Refresh all gold tables without a snapshot of the queues."""
    with kept_open():
        gold_tables.refresh(history, everything=True, progress=progress)
