"""Rebuild and backfill: tables computed again from what is stored."""

import datetime as dt
import shutil

import msgspec
from deltalake import DeltaTable

from waystation.core.errors import InvalidInput
from waystation.pipeline.history import History
from waystation.pipeline.progress import NoProgress, Progress
from waystation.pipeline.refresh import gold_tables, stale_hours
from waystation.pipeline.refresh.fold import fold, folded_version
from waystation.pipeline.refresh.stale_hours import Hours
from waystation.pipeline.storage import delta, places
from waystation.pipeline.storage.arrow import fs, pa
from waystation.pipeline.storage.table_log import kept_open, old_names
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
    for table in (EVENTS, GAPS, PAYLOADS, FIELD_VALUES, LEDGER, KEPT):
        _take_over(history, table)
    _keep_snapshots(history)
    for layer in (Layer.SILVER, Layer.GOLD):
        _delete(f"{history.root}/{layer}")
    progress.begin("folding events into attempts and items")
    fold(history)
    refresh_all(history, progress)
    _restore_snapshots(history)
    drop_kept_snapshots(history.root)


def _delete(place: str) -> None:
    files, folder = places.filesystem(place)
    if isinstance(files, fs.LocalFileSystem):
        shutil.rmtree(folder, ignore_errors=True)
    elif files.get_file_info(folder).type != fs.FileType.NotFound:
        files.delete_dir(folder)


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


KEPT = msgspec.structs.replace(LEDGER, layer=Layer.BRONZE, name="_ledger")
"""Rows of the ledger for the time of a rebuild."""
_ACCOUNT = (*LEDGER.key, "acknowledged", "terminal", "removed", "duplicated", "gaps")
"""The jobs of an hour, and what the events say has become of them."""
_FROM_SNAPSHOTS = ("visible", "lost", "lost_ids", "clean")


def _keep_snapshots(history: History) -> None:
    """Put aside what the ledger knows from snapshots, which cannot be computed from events.

    What a rebuild that was killed has put aside, the ledger may not know any more.
    """
    known = history.read(LEDGER).where("visible is not null")
    before = history.read(KEPT).join(known, list(LEDGER.key), "left_anti")
    replace(known.unionByName(before.select(*LEDGER.names)), history.root, KEPT)


def drop_kept_snapshots(root: str) -> None:
    """Delete what was put aside, also by a rebuild that was killed."""
    _delete(KEPT.path(root))


def _restore_snapshots(history: History) -> None:
    if not delta.count(KEPT.path(history.root)):
        return
    known = history.read(KEPT)
    known = known.selectExpr(*_ACCOUNT, f"struct({', '.join(_FROM_SNAPSHOTS)}) as known")
    rows = history.read(LEDGER).join(known, list(_ACCOUNT), "left")
    replace(rows.selectExpr(*map(_restored, LEDGER.names)), history.root, LEDGER)


def _restored(name: str) -> str:
    is_known = "visible is null and known is not null"
    return f"if({is_known}, known.{name}, {name}) as {name}" if name in _FROM_SNAPSHOTS else name


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
