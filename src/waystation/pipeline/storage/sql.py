"""SQL over tables: run by Spark, or by DuckDB in this process when the rows are few.

The rules of silver and gold are written once, in SQL that both understand. Spark's functions that
DuckDB lacks are macros there; the few words that differ are rewritten.
"""

import re
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, cast

import duckdb

from waystation.pipeline.storage.arrow import dataset, pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Frame: TypeAlias = Any
"""A DataFrame of Spark, or an Arrow table or dataset in this process."""

_MACROS = (
    "array_repeat(x, times) as list_resize([x], times, x)",
    "collect_list(x) as coalesce(array_agg(x) filter (where x is not null), [])",
    # DuckDB's own count_if is null where Spark's is 0.
    "count_where(x) as count(case when x then 1 end)",
    "log1p(x) as ln(1 + x)",
    "percentile(x, part) as quantile_cont(x, part)",
    "shiftleft(x, bits) as x << bits",
    "shiftright(x, bits) as x >> bits",
    "size(x) as len(x)",
    "struct(a) as {'col1': a}, (a, b) as {'col1': a, 'col2': b}",
    "timestamp_micros(x) as make_timestamptz(x)",
    "timestamp_millis(x) as make_timestamptz(x * 1000)",
    "to_date(x) as cast(x as date)",
    "to_utc_timestamp(x, zone) as cast(x as timestamptz)",
    "unix_micros(x) as epoch_us(x)",
    "unix_millis(x) as epoch_ms(x)",
    "unix_seconds(x) as epoch_ms(x) // 1000",
)
"""Functions of Spark in DuckDB's words."""
_THREAD = threading.local()
_IGNORING_NULLS = re.compile(r"\b(\w+)\((\w+)\) ignore nulls\b")
_NAME = re.compile(r"\{(\w+)\}")


def query(text: str, **frames: Frame) -> Frame:
    """The rows of a query over frames, which it names in braces.

    Spark runs it when one of them is Spark's; else DuckDB does, at once.
    """
    spark = session_of(frames.values())
    if spark is None:
        return _in_this_process(text, frames)
    known: dict[str, Any] = {name: to_spark(spark, frame) for name, frame in frames.items()}
    return spark.sql(text, **known)


def select(rows: Frame, *columns: str, where: str = "true") -> Frame:
    """Columns of rows, as SQL."""
    if is_spark(rows):
        return rows.where(where).selectExpr(*columns)
    return query(f"select {', '.join(columns)} from {{rows}} where {where}", rows=rows)


def grouped(rows: Frame, by: Sequence[str], *columns: str) -> Frame:
    """Aggregates of rows, as SQL, beside the columns that they are grouped by."""
    if is_spark(rows):
        # Whoever has Spark's rows has imported Spark.
        from pyspark.sql import functions as F

        return rows.groupBy(*by).agg(*map(F.expr, columns))
    keys = ", ".join(f"`{name}`" for name in by)
    return query(f"select {keys}, {', '.join(columns)} from {{rows}} group by {keys}", rows=rows)


def stacked(one: Frame, other: Frame) -> Frame:
    """The rows of both frames, which have the same columns."""
    if is_spark(one):
        return one.unionByName(other)
    return pa.concat_tables([one, other], promote_options="permissive")


def is_spark(frame: Frame) -> "TypeGuard[DataFrame]":
    """Whether a frame is Spark's, asked without importing Spark: whoever has such a frame has."""
    spark = sys.modules.get("pyspark.sql")
    return spark is not None and isinstance(frame, spark.DataFrame)


def session_of(frames: Iterable[Frame]) -> "SparkSession | None":
    """The session of the first frame that is Spark's; None when none is."""
    return next((each.sparkSession for each in frames if is_spark(each)), None)


def to_spark(spark: "SparkSession", frame: Frame) -> "DataFrame":
    """A frame as Spark's."""
    if is_spark(frame):
        return frame
    return spark.createDataFrame(to_arrow(frame))


def to_arrow(frame: Frame) -> Any:
    """A frame as an Arrow table in this process."""
    if is_spark(frame):
        return cast(Any, frame).toArrow()
    return frame.to_table() if isinstance(frame, dataset.Dataset) else frame


def conform(frame: Frame, columns: "StructType") -> Any:
    """An Arrow table with exactly these columns and types; columns that it lacks are null."""
    # Whoever has Spark's columns has imported Spark.
    from waystation.pipeline.storage.schemas import schema_of

    table, wanted = to_arrow(frame), schema_of(columns)
    arrays = [
        table[field.name].cast(field.type)
        if field.name in table.schema.names
        else pa.nulls(table.num_rows, field.type)
        for field in wanted
    ]
    return pa.table(arrays, schema=wanted)


def texts(values: Iterable[str]) -> str:
    """Texts as a list in parentheses; none of them has a quote."""
    return f"({', '.join(map(quoted, values))})"


def quoted(text: str) -> str:
    """A plain text as a literal that both engines read alike."""
    if not text.isprintable() or {"'", "\\", "{", "}"} & set(text):
        raise ValueError(f"wanted a text without quotes, backslashes and braces, got {text!r}")
    return f"'{text}'"


def chosen(value: str, of: Mapping[str, str]) -> str:
    """The text that belongs to a value; null for any other value."""
    cases = " ".join(f"when {quoted(key)} then {quoted(text)}" for key, text in of.items())
    return f"case {value} {cases} end"


def _in_this_process(text: str, frames: Mapping[str, Frame]) -> Any:
    words = _IGNORING_NULLS.sub(r"\1(\2 ignore nulls)", _NAME.sub(r"\1", text))
    words = words.replace("count_if(", "count_where(")
    database = _connected()
    for name, frame in frames.items():
        database.register(name, frame)
    try:
        return database.sql(words).to_arrow_table()
    finally:
        for name in frames:
            database.unregister(name)


def _connected() -> duckdb.DuckDBPyConnection:
    """The database of this thread, which holds nothing between two queries."""
    if not hasattr(_THREAD, "database"):
        database = duckdb.connect(
            config={
                # Nothing is fetched from anywhere, and nothing is left in the current directory.
                "autoinstall_known_extensions": "false",
                "temp_directory": tempfile.gettempdir(),
            }
        )
        database.execute("set TimeZone = 'UTC'; set preserve_insertion_order = false")
        # A long query would write it to the terminal of whoever imports this.
        database.execute("set enable_progress_bar = false")
        for macro in _MACROS:
            database.execute(f"create temp macro {macro}")
        _THREAD.database = database
    return _THREAD.database
