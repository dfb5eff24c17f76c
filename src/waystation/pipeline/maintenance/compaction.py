"""Compaction: few large files instead of many small ones, and old versions deleted.

A run commits a few small files with every batch and every refresh, so it also compacts: partitions
with many small files are rewritten, and files of old versions are deleted.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from deltalake import CommitProperties, DeltaTable, Transaction

from waystation.pipeline.gold.cells import CELLS
from waystation.pipeline.history import History
from waystation.pipeline.products import product_tables
from waystation.pipeline.progress import NoProgress, Progress
from waystation.pipeline.refresh.fold import fold
from waystation.pipeline.refresh.gold_sums import SUMMED
from waystation.pipeline.silver.moves import OPEN
from waystation.pipeline.storage import changes, delta, rewriting
from waystation.pipeline.storage.opened import files_of
from waystation.pipeline.storage.turns import alone
from waystation.pipeline.tables import LEDGER, Layer, Table, every

KEEP_H = 7 * 24
"""Hours that files of old versions are kept for readers that still use them."""
REWRITTEN_KEEP_H = 1
"""The same for tables that every refresh rewrites."""
MANY = 50
"""Small files of one day, or of a table without days, from which on it is compacted."""
MOST_OLD = 200
"""Versions of a table rewritten by every refresh after which files of old ones are deleted."""
CLEARED = "cleared"
"""The application whose batch is the version at which they were deleted last."""
_BY_SUMS = (CELLS, LEDGER, *SUMMED)
"""Tables whose files are kept by the hour or day: a round replaces the files of its hours, with all
that is in the same file."""
SMALL = 16 * 2**20
"""Bytes below which a file is small."""
LARGE = 128 * 2**20
"""Bytes that files have together, at most, which become one."""


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
    found = {table: files_of(table.path(history.root)) for table in tables}
    crowded = {table: files for table, files in found.items() if table not in _BY_SUMS}
    rewriting.compact(history, {table: list(_groups(files)) for table, files in crowded.items()})
    done: list[Compacted] = []
    for number, (table, files) in enumerate(found.items(), 1):
        # This also deletes files that killed tasks have left.
        done.append(_cleared(history.root, table, files.num_rows))
        progress.reach(number)
    return done


def compact_where_needed(history: History) -> list[Compacted]:
    """Compact partitions with many small files, and delete old versions where there are many."""
    crowded: dict[Table, list[list[str]]] = {}
    files: dict[Table, int] = {}
    for table in tables_of(history.root):
        path = table.path(history.root)
        found = files_of(path)
        groups = [] if table in _BY_SUMS else list(_groups(found, small=SMALL, many=MANY))
        if groups or _has_old(path, table):
            crowded[table], files[table] = groups, found.num_rows
    rewriting.compact(history, crowded)
    return [_cleared(history.root, table, before) for table, before in files.items()]


def _groups(files: Any, *, small: int = LARGE, many: int = 1) -> Iterator[list[str]]:
    """Files of one partition that become one; where more than so many are small."""
    by = [name for name in files.column_names if name.startswith("partition.")]
    partitions: dict[tuple[Any, ...], list[tuple[int, str]]] = {}
    for each in files.select(["path", "size_bytes", *by]).to_pylist():
        partition = tuple(each[name] for name in by)
        partitions.setdefault(partition, []).append((each["size_bytes"], each["path"]))
    for some in partitions.values():
        if sum(size < small for size, _ in some) > many:
            yield from _filled(some)


def _filled(files: Sequence[tuple[int, str]]) -> Iterator[list[str]]:
    """Groups of files that are large together, the smallest files first."""
    group, held = list[str](), 0
    for size, path in sorted(files):
        if group and held + size > LARGE:
            if len(group) > 1:
                yield group
            group, held = [], 0
        group.append(path)
        held += size
    if len(group) > 1:
        yield group


def _cleared(root: str, table: Table, before: int) -> Compacted:
    """Delete files of old versions."""
    path = table.path(root)
    removed = _vacuumed(path, table)
    return Compacted(table.name, before, len(DeltaTable(path).file_uris()), removed)


def _is_rewritten(table: Table) -> bool:
    is_of_one_product = table in product_tables()
    return table.layer is not Layer.BRONZE and (not table.partitions or is_of_one_product)


def _has_old(path: str, table: Table) -> bool:
    """Whether a table has many files of old versions, without a look at its folders."""
    cleared = delta.last_batch(path, CLEARED) or 0
    return _is_rewritten(table) and (changes.version(path) or 0) - cleared > MOST_OLD


def _vacuumed(path: str, table: Table) -> int:
    stored = DeltaTable(path)
    removed = stored.vacuum(
        retention_hours=REWRITTEN_KEEP_H if _is_rewritten(table) else KEEP_H,
        dry_run=False,
        enforce_retention_duration=False,
        full=True,
        commit_properties=CommitProperties(
            app_transactions=[Transaction(CLEARED, stored.version())]
        ),
    )
    return len(removed)
