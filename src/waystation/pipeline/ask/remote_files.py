"""Files of a table in an object store, as a dataset that DuckDB reads through Arrow.

DuckDB reads an object store itself only with an extension that it would have to download.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow.dataset  # pyright: ignore[reportMissingTypeStubs]
from deltalake import DeltaTable

from waystation.pipeline.ask.active_files import ActiveFile, RowFilter
from waystation.pipeline.storage.places import filesystem

pa: Any = pyarrow
dataset: Any = pyarrow.dataset

AT_ONCE = 16
"""Footers that are read at a time."""


def remote_files(table: DeltaTable, files: Sequence[ActiveFile], wanted: RowFilter) -> Any:
    """A dataset of some files of a table, of the row groups that can hold wanted rows."""
    form = dataset.ParquetFileFormat()

    def fragment(file: ActiveFile) -> Any:
        source, path = filesystem(file.path)
        day = None if file.date is None else dataset.field("date") == pa.scalar(file.date)
        whole = form.make_fragment(path, source, partition_expression=day)
        return _subset(whole, wanted) if wanted.texts else whole

    with ThreadPoolExecutor(AT_ONCE) as pool:
        fragments = [each for each in pool.map(fragment, files) if each is not None]
    return dataset.FileSystemDataset(fragments, _with_views(pa.schema(table.schema())), form)


def _subset(fragment: Any, wanted: RowFilter) -> Any:
    """The row groups that can hold wanted rows; None when there are none."""
    footer = fragment.metadata
    groups = [number for number in range(footer.num_row_groups) if _may_be(wanted, footer, number)]
    return fragment.subset(row_group_ids=groups) if groups else None


def _may_be(wanted: RowFilter, footer: Any, number: int) -> bool:
    group = footer.row_group(number)
    columns = (group.column(each) for each in range(group.num_columns))
    known = {each.path_in_schema: each.statistics for each in columns}
    return all(
        wanted.may_be_between(column, *_bounds(known.get(column))) for column in wanted.texts
    )


def _bounds(statistics: Any) -> tuple[str | None, str | None]:
    if statistics is None or not statistics.has_min_max:
        return None, None
    least, most = statistics.min, statistics.max
    return (least, most) if isinstance(least, str) and isinstance(most, str) else (None, None)


def _with_views(schema: Any) -> Any:
    """The same columns, with texts of the type that DuckDB does not compare in Arrow.

    Arrow cannot compare the texts of files that were compacted with those of others.
    """
    return pa.schema(
        [pa.field(each.name, pa.string_view()) if _is_text(each.type) else each for each in schema]
    )


def _is_text(kind: Any) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)
