"""Files of many tables, written by the tasks of one job.

The rows of each table are an array in a column, so that one plan, and one pass over its rows, fills
all of them. The files are invisible until they are committed.
"""

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, TypeAlias

from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from waystation.pipeline.storage import delta, table_log
from waystation.pipeline.storage.arrow import Batch, pa
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.parts import PART, Part, PartWriter
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.tables import Table

Made: TypeAlias = Mapping[str, Batch]
"""Rows for tables, by the names that they have here."""
_ROWS = StructType([StructField("column", StringType()), StructField("part", PART)])


def shaped(rows: DataFrame, table: Table) -> DataFrame:
    """Rows with exactly the columns of a table."""
    # As text: each call on a column is a call of Java.
    kinds = ((f"`{each.name}`", each.dataType.simpleString()) for each in table.schema)
    return rows.selectExpr(*(f"cast({name} as {kind}) as {name}" for name, kind in kinds))


def write(rows: DataFrame, root: str, tables: Mapping[str, Table]) -> dict[str, list[Part]]:
    """Write the arrays in each column to files of a table; returns the files by column."""
    return write_made(_flattened, rows.select(*tables), root, tables)


def _flattened(batches: Iterable[Batch]) -> Iterator[Made]:
    for batch in batches:
        flat = {name: batch[name].flatten() for name in batch.schema.names}
        yield {name: pa.RecordBatch.from_struct_array(rows) for name, rows in flat.items()}


def write_made(
    make: Callable[[Iterable[Batch]], Iterator[Made]],
    rows: DataFrame,
    root: str,
    tables: Mapping[str, Table],
) -> dict[str, list[Part]]:
    """Write what tasks make of rows to files of tables; returns the files by their names here."""
    writing = partial(_written, make, root, dict(tables))
    parts: dict[str, list[Part]] = defaultdict(list)
    for row in map_in_arrow(rows, writing, _ROWS).collect():
        parts[row["column"]].append(Part.of(row["part"]))
    return parts


def _written(
    make: Callable[[Iterable[Batch]], Iterator[Made]],
    root: str,
    tables: Mapping[str, Table],
    batches: Iterable[Batch],
) -> Iterator[Batch]:
    with ExitStack() as stack:
        writers = {
            column: stack.enter_context(PartWriter.of(root, table))
            for column, table in tables.items()
        }
        for made in make(batches):
            for name, rows in made.items():
                if rows.num_rows and name in writers:
                    writers[name].write(rows)
    files = [
        {"column": name, "part": part.row}
        for name, writer in writers.items()
        for part in writer.parts
    ]
    if files:
        yield pa.RecordBatch.from_pylist(files, schema=schema_of(_ROWS))


def write_whole(rows: DataFrame, root: str, table: Table) -> list[Part]:
    """Write rows to files of one table."""

    def made(batches: Iterable[Batch]) -> Iterator[Made]:
        return ({table.name: batch} for batch in batches)

    return write_made(made, shaped(rows, table), root, {table.name: table}).get(table.name, [])


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
    parts, path = write_whole(rows, root, table), table.path(root)
    version = DeltaTable(path).version() if renaming else table_log.version(path) or 0
    is_stored = delta.commit(
        path,
        table.schema,
        parts,
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
