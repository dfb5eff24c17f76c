"""Compaction: few large files instead of many small ones, and old versions deleted.

A run commits a few small files with every batch and every refresh, so it also compacts: partitions
with many small files are rewritten, and files of old versions are deleted.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import msgspec
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from waystation.pipeline.gold.cells import CELLS
from waystation.pipeline.history import History
from waystation.pipeline.products import product_tables
from waystation.pipeline.progress import NoProgress, Progress
from waystation.pipeline.refresh.fold import fold
from waystation.pipeline.refresh.gold_sums import SUMMED
from waystation.pipeline.silver.moves import OPEN
from waystation.pipeline.storage import delta, filesystems
from waystation.pipeline.storage.arrow import fs
from waystation.pipeline.storage.opened import files_of
from waystation.pipeline.storage.turns import alone
from waystation.pipeline.tables import LEDGER, Layer, Table, every

KEEP_H = 7 * 24
"""Hours that files of old versions are kept for readers that still use them."""
REWRITTEN_KEEP_H = 1
"""The same for tables that every refresh rewrites."""
MANY = 50
"""Small files of one day, or of a table without days, from which on it is compacted."""
MOST_OLD = 500
"""Files of old versions that a table rewritten by every refresh may have."""
_BY_SUMS = (CELLS, LEDGER, *SUMMED)
"""Tables whose files are kept by the hour or day: a round replaces the files of its hours."""
SMALL = 16 * 2**20
"""Bytes below which a file is small."""


class Compacted(msgspec.Struct, frozen=True):
    """The result of compacting one table."""

    table: str
    before: int
    after: int
    """Files."""
    removed: int
    """Files of old versions that were deleted."""


def tables_of(root: str) -> list[Table]:
    """The tables that exist in a history."""
    known: Iterable[Table] = (*every(), *OPEN, CELLS, *product_tables())
    return [table for table in known if DeltaTable.is_deltatable(table.path(root))]


@alone("compact")
def compact(history: History, progress: Progress | None = None) -> list[Compacted]:
    """Compact every table, and delete files of old versions."""
    progress = progress or NoProgress()
    # Events that are not folded yet must be in the files that the fold looks for.
    fold(history)
    tables = tables_of(history.root)
    progress.begin("compacting", len(tables))
    done: list[Compacted] = []
    for number, table in enumerate(tables, 1):
        done.append(_compact_whole(history.root, table))
        progress.reach(number)
    return done


def compact_where_needed(root: str) -> list[Compacted]:
    """Compact partitions with many small files, and delete old versions where there are many."""
    return [done for table in tables_of(root) for done in _compact_partly(root, table)]


def _compact_whole(root: str, table: Table) -> Compacted:
    path = table.path(root)
    before = len(DeltaTable(path).file_uris())
    DeltaTable(path).optimize.compact(writer_properties=delta.writer_properties(table))
    # This also deletes files that killed tasks have left.
    removed = _vacuumed(path, table)
    return Compacted(table.name, before, len(DeltaTable(path).file_uris()), removed)


def _compact_partly(root: str, table: Table) -> Iterator[Compacted]:
    path = table.path(root)
    files = files_of(path).to_pylist()
    small = Counter(each.get("partition.date") for each in files if each["size_bytes"] < SMALL)
    crowded = [day for day, many in small.items() if many > MANY and table not in _BY_SUMS]
    has_old_files = _is_rewritten(table) and _stored_files(path) > len(files) + MOST_OLD
    if not (crowded or has_old_files):
        return
    for day in crowded:
        wanted: Any = [("date", "=", day.isoformat())] if day is not None else None
        # A concurrent change of the same rows wins; the next round tries again.
        with suppress(CommitFailedError):
            DeltaTable(path).optimize.compact(
                partition_filters=wanted, writer_properties=delta.writer_properties(table)
            )
    removed = _vacuumed(path, table)
    yield Compacted(table.name, len(files), len(DeltaTable(path).file_uris()), removed)


def _is_rewritten(table: Table) -> bool:
    is_of_one_product = table in product_tables()
    return table.layer is not Layer.BRONZE and (not table.partitions or is_of_one_product)


def _stored_files(path: str) -> int:
    files, root = filesystems.filesystem(path)
    found = files.get_file_info(fs.FileSelector(root, recursive=True))
    # The log has checkpoints of the same type.
    return sum(each.path.endswith(".parquet") and "/_delta_log/" not in each.path for each in found)


def _vacuumed(path: str, table: Table) -> int:
    removed = DeltaTable(path).vacuum(
        retention_hours=REWRITTEN_KEEP_H if _is_rewritten(table) else KEEP_H,
        dry_run=False,
        enforce_retention_duration=False,
        full=True,
    )
    return len(removed)
