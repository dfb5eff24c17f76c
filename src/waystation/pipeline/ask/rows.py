"""Rows of small tables, read with Arrow alone."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs]

from waystation.pipeline.ask.active_files import ActiveFile, active_files
from waystation.pipeline.storage.places import filesystem
from waystation.pipeline.tables import Table

pq: Any = pyarrow.parquet


def read_rows(
    root: str,
    table: Table,
    columns: Sequence[str],
    among: Callable[[ActiveFile], bool] = lambda _: True,
) -> list[dict[str, Any]]:
    """Some columns of a table, or of some of its files; null where a file has no such column."""
    found: list[dict[str, Any]] = []
    for file in filter(among, active_files(table.path(root))):
        files, path = filesystem(file.path)
        with files.open_input_file(path) as opened:
            rows = pq.ParquetFile(opened).read(columns=list(columns)).to_pylist()
        found += [{name: row.get(name) for name in columns} for row in rows]
    return found
