"""SQL over frames of Spark, and its rows as Arrow tables."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, cast

from waystation.pipeline.storage.arrow import pa

if TYPE_CHECKING:
    # Questions use the texts below, and need no Spark.
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Frame: TypeAlias = Any
"""A DataFrame of Spark, or an Arrow table with few rows."""


def query(text: str, **frames: Frame) -> "DataFrame":
    """The rows of a query over frames, which it names in braces; one at least is Spark's."""
    spark = next(each.sparkSession for each in frames.values() if is_spark(each))
    known: dict[str, Any] = {name: to_spark(spark, frame) for name, frame in frames.items()}
    return spark.sql(text, **known)


def is_spark(frame: Frame) -> "TypeGuard[DataFrame]":
    """Whether a frame is Spark's."""
    return hasattr(frame, "sparkSession")


def to_spark(spark: "SparkSession", frame: Frame) -> "DataFrame":
    """A frame as Spark's."""
    return frame if is_spark(frame) else spark.createDataFrame(frame)


def to_arrow(frame: Frame) -> Any:
    """A frame as an Arrow table in this process."""
    return cast(Any, frame).toArrow() if is_spark(frame) else frame


def select(rows: "DataFrame", *columns: str, where: str = "true") -> "DataFrame":
    """Columns of rows, as SQL."""
    return rows.where(where).selectExpr(*columns)


def grouped(rows: "DataFrame", by: Sequence[str], *columns: str) -> "DataFrame":
    """Aggregates of rows, as SQL, beside the columns that they are grouped by."""
    # Whoever has Spark's rows has imported Spark.
    from pyspark.sql import functions as F

    return rows.groupBy(*by).agg(*map(F.expr, columns))


def stacked(one: "DataFrame", other: "DataFrame") -> "DataFrame":
    """The rows of both frames, which have the same columns."""
    return one.unionByName(other)


def conform(frame: Frame, columns: "StructType") -> Any:
    """An Arrow table with exactly these columns and types; columns that it lacks are null."""
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
    """A plain text as a literal of SQL."""
    if not text.isprintable() or {"'", "\\", "{", "}"} & set(text):
        raise ValueError(f"wanted a text without quotes, backslashes and braces, got {text!r}")
    return f"'{text}'"


def chosen(value: str, of: Mapping[str, str]) -> str:
    """The text that belongs to a value; null for any other value."""
    cases = " ".join(f"when {quoted(key)} then {quoted(text)}" for key, text in of.items())
    return f"case {value} {cases} end"
