"""Tidying: few large files instead of many small ones, and no files that nobody needs.

A run commits a few small files with every batch and every round of answers, so it tidies up after
itself: whatever has become crowded is compacted, and what is long replaced is deleted.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import msgspec
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from waystation.pipeline.products import tables_of_all_lines
from waystation.pipeline.silver.steps import STEPS
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import fs, pa
from waystation.pipeline.tables import Layer, Table, every

KEEP_H = 7 * 24
"""Hours that files nobody needs are kept, for whoever still reads them."""
REWRITTEN_KEEP_H = 1
"""The same for tables that are written anew in every round."""
MANY = 50
"""Small files of one day, or of a table without days, that make it crowded."""
LITTER = 500
"""Files of older versions that a table written anew in every round may have around it."""
SMALL = 16 * 2**20
"""Bytes below which a file is small."""


class Freed(msgspec.Struct, frozen=True):
    """What came of tidying one table."""

    table: str
    before: int
    after: int
    """Files."""
    removed: int
    """Files of older versions that were deleted."""


def tables_of(root: str) -> list[Table]:
    """Every table that a history has by now."""
    known: Iterable[Table] = (*every(), STEPS, *tables_of_all_lines())
    return [table for table in known if DeltaTable.is_deltatable(table.place(root))]


def tidy(root: str) -> list[Freed]:
    """Compact what is crowded and delete what was replaced; nothing where neither is the case."""
    return [freed for table in tables_of(root) for freed in _tidied(root, table)]


def compacted(root: str, table: Table) -> Freed:
    """Compact a whole table."""
    place = table.place(root)
    before = len(DeltaTable(place).file_uris())
    DeltaTable(place).optimize.compact()
    # All that no commit names goes as well: killed tasks leave such files.
    removed = _vacuumed(place, table)
    return Freed(table.name, before, len(DeltaTable(place).file_uris()), removed)


def _tidied(root: str, table: Table) -> Iterator[Freed]:
    place = table.place(root)
    files = pa.table(DeltaTable(place).get_add_actions(flatten=True)).to_pylist()
    small = Counter(each.get("partition.date") for each in files if each["size_bytes"] < SMALL)
    crowded = [day for day, many in small.items() if many > MANY]
    is_littered = _is_rewritten(table) and _lying_at(place) > len(files) + LITTER
    if not (crowded or is_littered):
        return
    for day in crowded:
        wanted: Any = [("date", "=", day.isoformat())] if day is not None else None
        # Whoever has changed the same rows meanwhile comes first; the next round tries again.
        with suppress(CommitFailedError):
            DeltaTable(place).optimize.compact(partition_filters=wanted)
    removed = _vacuumed(place, table)
    yield Freed(table.name, len(files), len(DeltaTable(place).file_uris()), removed)


def _is_rewritten(table: Table) -> bool:
    return table.layer is not Layer.BRONZE and not table.partitions


def _lying_at(place: str) -> int:
    files, root = delta.filesystem(place)
    found = files.get_file_info(fs.FileSelector(root))
    return sum(each.path.endswith(".parquet") for each in found)


def _vacuumed(place: str, table: Table) -> int:
    removed = DeltaTable(place).vacuum(
        retention_hours=REWRITTEN_KEEP_H if _is_rewritten(table) else KEEP_H,
        dry_run=False,
        enforce_retention_duration=False,
        full=True,
    )
    return len(removed)
