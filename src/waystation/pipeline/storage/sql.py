"""SQL over frames of Spark, and the texts that it is put together from."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    # Questions use the texts below, and need no Spark.
    from pyspark.sql import DataFrame

    Frame: TypeAlias = DataFrame
else:
    Frame = Any


def query(text: str, **frames: Frame) -> Frame:
    """The rows of a query over frames, which it names in braces."""
    first, *_ = frames.values()
    return first.sparkSession.sql(text, None, **frames)


def select(rows: Frame, *columns: str, where: str = "true") -> Frame:
    """Columns of rows, as SQL."""
    return rows.where(where).selectExpr(*columns)


def grouped(rows: Frame, by: Sequence[str], *columns: str) -> Frame:
    """Aggregates of rows, as SQL, beside the columns that they are grouped by."""
    # Whoever has Spark's rows has imported Spark.
    from pyspark.sql import functions as F

    return rows.groupBy(*by).agg(*map(F.expr, columns))


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
