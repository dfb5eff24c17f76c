"""Compaction: few large files instead of many small ones, and old versions deleted.

A run commits a few small files with every batch and every refresh, so it also compacts: small files
of a partition become one at least twice as large as each of them. So a row is rewritten seldom,
however many files come. Files of old versions are deleted, too.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import msgspec
from deltalake import CommitProperties, DeltaTable, Transaction

from waystation.pipeline.gold.cells import CELLS
from waystation.pipeline.gold.derived import DERIVED
from waystation.pipeline.gold.files import File, files_by, settled
from waystation.pipeline.history import History
from waystation.pipeline.products import product_tables
from waystation.pipeline.progress import NoProgress, Progress
from waystation.pipeline.refresh.fold import fold
from waystation.pipeline.silver.moves import OPEN
from waystation.pipeline.storage import delta, rewriting, table_log
from waystation.pipeline.storage.table_log import files_of
from waystation.pipeline.storage.turns import alone
from waystation.pipeline.tables import LEDGER, Layer, Table, every

KEEP_H = 7 * 24
"""Hours that files of old versions are kept for readers that still use them."""
REWRITTEN_KEEP_H = 1
"""The same for tables that every refresh rewrites."""
ABANDONED_H = 24
"""Hours after which a file in no commit was left by a killed task: a fold may take many."""
MANY = 50
"""Small files of one day, or of a table without days, from which on it is compacted."""
MANY_BY_HOUR = 4
"""The same of a settled day of a table whose files are kept by the hour."""
MOST_OLD = 200
"""Versions of a table rewritten by every refresh after which files of old ones are deleted."""
CLEARED = "cleared"
"""The application whose batch is the version at which they were deleted last."""
_KEPT_BY: Mapping[Table, str | None] = {
    CELLS: "at",
    LEDGER: "hour",
    **{each.table: each.by for each in DERIVED},
}
"""Tables whose files are kept by the hour or day in a column, because a round replaces the files of
its hours with all that is in them: only those of days that have settled become one."""
SMALL = 64 * 2**20
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
    before = {table: files_of(table.path(history.root)).num_rows for table in tables}
    groups = {table: list(_groups(history.root, table, every=True)) for table in tables}
    rewriting.compact(history, groups)
    done: list[Compacted] = []
    for number, table in enumerate(tables, 1):
        # This also deletes files that killed tasks have left.
        done.append(_cleared(history.root, table, before[table]))
        progress.reach(number)
    return done


def compact_where_needed(history: History) -> list[Compacted]:
    """Compact partitions with many small files, and delete old versions where there are many."""
    crowded: dict[Table, list[list[str]]] = {}
    files: dict[Table, int] = {}
    for table in tables_of(history.root):
        path = table.path(history.root)
        there = files_of(path).num_rows
        groups = list(_groups(history.root, table))
        if groups or _has_old(path, table):
            crowded[table], files[table] = groups, there
    rewriting.compact(history, crowded)
    return [_cleared(history.root, table, before) for table, before in files.items()]


def _groups(root: str, table: Table, *, every: bool = False) -> Iterator[list[str]]:
    """Files that become one: of all small ones of a place, or of those that are worth it."""
    many = MANY_BY_HOUR if table in _KEPT_BY else MANY
    for some in _places(root, table):
        yield from _filled(some if every else _worth_joining(some, many))


def _places(root: str, table: Table) -> Iterable[Sequence[File]]:
    """The small files of each partition, or of each day that has settled, the smallest first."""
    files = files_by(table, root, _KEPT_BY.get(table))
    if table in _KEPT_BY:
        files = settled(files)
    places: dict[tuple[Any, ...], list[File]] = defaultdict(list)
    for each in sorted(files, key=lambda file: file.size):
        if each.size < SMALL:
            places[each.path.rpartition("/")[0], each.span.last.date()].append(each)
    return places.values()


def _worth_joining(files: Sequence[File], many: int) -> Sequence[File]:
    """The smallest files, more than so many, the largest of which is no larger than the others."""
    held = list(accumulate(each.size for each in files))
    ends = [last for last in range(many, len(files)) if files[last].size <= held[last - 1]]
    return files[: max(ends, default=-1) + 1]


def _filled(files: Sequence[File]) -> Iterator[list[str]]:
    """Groups of files that are large together."""
    group, held = list[str](), 0
    for each in files:
        if group and held + each.size > LARGE:
            yield group
            group, held = [], 0
        group.append(each.path)
        held += each.size
    if len(group) > 1:
        yield group


def _cleared(root: str, table: Table, before: int) -> Compacted:
    """Delete files of old versions."""
    path = table.path(root)
    removed = _vacuumed(path, table)
    return Compacted(table.name, before, len(DeltaTable(path).file_uris()), removed)


def _is_rewritten(table: Table) -> bool:
    is_by_round = not table.partitions or table in (CELLS, *product_tables())
    return table.layer is not Layer.BRONZE and is_by_round


def _has_old(path: str, table: Table) -> bool:
    """Whether a table has many files of old versions, without a look at its folders."""
    cleared = delta.last_batch(path, CLEARED) or 0
    return _is_rewritten(table) and (table_log.version(path) or 0) - cleared > MOST_OLD


def _vacuumed(path: str, table: Table) -> int:
    stored, removed = DeltaTable(path), 0
    # Without `full`, only files that a commit has taken out.
    keeping = [(ABANDONED_H, True), (REWRITTEN_KEEP_H, False)]
    for hours, full in keeping if _is_rewritten(table) else [(KEEP_H, True)]:
        cleared = [Transaction(CLEARED, stored.version())]
        removed += len(
            stored.vacuum(
                retention_hours=hours,
                dry_run=False,
                enforce_retention_duration=False,
                full=full,
                commit_properties=CommitProperties(app_transactions=cleared),
            )
        )
    return removed
