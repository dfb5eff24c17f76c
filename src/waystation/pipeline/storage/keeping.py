"""Putting rows into a table: few through this process, many through Spark's tasks."""

from typing import Any, cast

from pyspark.sql import DataFrame

from waystation.pipeline.storage import delta
from waystation.pipeline.storage.delta import Identity
from waystation.pipeline.storage.parts import PartWriter
from waystation.pipeline.tables import Table

FEW = 100_000
"""Rows that are sooner written here than by tasks that have to be started first."""


def keep(
    rows: DataFrame, root: str, table: Table, identity: Identity, *, replace: bool = False
) -> None:
    """Add rows to a table, or let it hold them and no others, once for each identity."""
    rows = rows.select(*table.names)
    here = taken(rows.limit(FEW + 1))
    if here.num_rows > FEW:
        (delta.replace if replace else delta.append)(rows, root, table, identity)
        return
    with PartWriter(table.place(root), table.schema, table.partitions) as writer:
        for batch in here.to_batches():
            if batch.num_rows:
                writer.write(batch)
    delta.commit(
        table.place(root),
        table.schema,
        writer.parts,
        identity,
        partitions=table.partitions,
        replace=replace,
    )


def taken(rows: DataFrame) -> Any:
    """Rows as an Arrow table of this process."""
    return cast(Any, rows).toArrow()
