"""Rows of a test as a table of a history, written by the test itself."""

from typing import Any

from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import pa
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.parts import PartWriter
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.tables import Table


def save(rows: Any, root: str, table: Table, batch: BatchId, *, replace: bool = False) -> None:
    """Append rows, of Spark or of Arrow, or replace the table; columns that they lack are null."""
    known = rows if isinstance(rows, pa.Table) else rows.toArrow()
    arrays = [
        known[field.name].cast(field.type)
        if field.name in known.schema.names
        else pa.nulls(known.num_rows, field.type)
        for field in schema_of(table.schema)
    ]
    with PartWriter.of(root, table) as writer:
        for each in pa.table(arrays, schema=schema_of(table.schema)).to_batches():
            if each.num_rows:
                writer.write(each)
    delta.commit(
        table.path(root),
        table.schema,
        writer.parts,
        batch,
        partitions=table.partitions,
        replace=replace,
    )
