"""Tables, or days of them, replaced by rows that tasks write."""

import datetime as dt
from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from waystation.pipeline.storage import changes, delta, task_files
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.tables import Table


def replace(
    rows: DataFrame,
    root: str,
    table: Table,
    *,
    days: Sequence[dt.date] | None = None,
    batches: Sequence[BatchId] = (),
) -> None:
    """Replace a table, or some days of it, by rows that tasks write; notes other batches."""
    whole = F.array(F.struct(*table.names)).alias("rows")
    parts = task_files.write(task_files.shaped(rows, table).select(whole), root, {"rows": table})
    path = table.path(root)
    delta.commit(
        path,
        table.schema,
        parts.get("rows", ()),
        # It is computed from what is there, so that whoever repeats it commits it again.
        BatchId("replaced", (changes.version(path) or 0) + 1),
        partitions=table.partitions,
        replace=True if days is None else days,
        check=lambda _: batches,
        again=True,
    )
