"""Files of many tables, written by the tasks of one job.

The rows of each table are an array in a column, so that one plan, and one pass over its rows, fills
all of them. The files are invisible until they are committed.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from waystation.pipeline.storage.arrow import Batch, pa
from waystation.pipeline.storage.mapped import map_in_arrow
from waystation.pipeline.storage.parts import PART, Part, PartWriter
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.tables import Table

_ROWS = StructType([StructField("column", StringType()), StructField("part", PART)])


def shaped(rows: DataFrame, table: Table) -> DataFrame:
    """Rows with exactly the columns of a table."""
    return rows.select(
        *(F.col(each.name).cast(each.dataType).alias(each.name) for each in table.schema)
    )


def write(rows: DataFrame, root: str, tables: Mapping[str, Table]) -> dict[str, list[Part]]:
    """Write the arrays in each column to files of a table; returns the files by column."""
    writing = partial(_written, root, dict(tables))
    parts: dict[str, list[Part]] = defaultdict(list)
    for row in map_in_arrow(rows.select(*tables), writing, _ROWS).collect():
        parts[row["column"]].append(Part.of(row["part"]))
    return parts


def _written(root: str, tables: Mapping[str, Table], batches: Iterable[Batch]) -> Iterator[Batch]:
    with ExitStack() as stack:
        writers = {
            column: stack.enter_context(PartWriter.of(root, table))
            for column, table in tables.items()
        }
        for batch in batches:
            for name, writer in writers.items():
                flat = batch.column(name).flatten()
                if len(flat):
                    writer.write(pa.RecordBatch.from_struct_array(flat))
    files = [
        {"column": name, "part": part.row}
        for name, writer in writers.items()
        for part in writer.parts
    ]
    if files:
        yield pa.RecordBatch.from_pylist(files, schema=schema_of(_ROWS))
