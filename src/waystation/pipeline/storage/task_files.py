"""Files of many tables, written by the tasks of one job.

The rows of each table are an array in a column, so that one plan, and one pass over its rows, fills
all of them. The files are invisible until they are committed.
"""

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from waystation.pipeline.storage import changes, delta
from waystation.pipeline.storage.arrow import Batch, pa
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.parts import PART, Part, PartWriter
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.tables import Table

_ROWS = StructType([StructField("column", StringType()), StructField("part", PART)])


def shaped(rows: DataFrame, table: Table) -> DataFrame:
    """Rows with exactly the columns of a table."""
    # As text: each call on a column is a call of Java.
    kinds = ((f"`{each.name}`", each.dataType.simpleString()) for each in table.schema)
    return rows.selectExpr(*(f"cast({name} as {kind}) as {name}" for name, kind in kinds))


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


def map_in_arrow(
    rows: DataFrame, function: Callable[[Iterable[Batch]], Iterator[Batch]], columns: StructType
) -> DataFrame:
    """`DataFrame.mapInArrow`, which asks for pandas and does not use it."""
    kind = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    udf: Any = UserDefinedFunction(function, returnType=columns, evalType=kind)
    given: Any = udf(*(rows[name] for name in rows.columns))
    java: Any = rows._jdf  # pyright: ignore[reportPrivateUsage]
    return DataFrame(java.mapInArrow(given._jc, False, None), rows.sparkSession)


def replace(
    rows: DataFrame,
    root: str,
    table: Table,
    *,
    days: Sequence[dt.date] | None = None,
    batches: Sequence[BatchId] = (),
    renaming: bool = False,
) -> None:
    """Replace a table, or some days of it, by rows that tasks write; notes other batches.

    With `renaming`, the table had other columns before.
    """
    whole = F.array(F.struct(*table.names)).alias("rows")
    parts = write(shaped(rows, table).select(whole), root, {"rows": table})
    path = table.path(root)
    version = DeltaTable(path).version() if renaming else changes.version(path) or 0
    is_stored = delta.commit(
        path,
        table.schema,
        parts.get("rows", ()),
        # It is computed from what is there, so that whoever repeats it commits it again.
        BatchId("replaced", version + 1),
        partitions=table.partitions,
        replace=True if days is None else days,
        check=lambda _: batches,
        again=True,
        renaming=renaming,
    )
    if not is_stored:
        # Another driver has taken the number, perhaps for other rows.
        raise delta.overtaken(path)
