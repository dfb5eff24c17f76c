"""Rows of Spark given to a function of Arrow batches, task by task."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from waystation.pipeline.storage.arrow import Batch


def map_in_arrow(
    rows: DataFrame, function: Callable[[Iterable[Batch]], Iterator[Batch]], columns: StructType
) -> DataFrame:
    """`DataFrame.mapInArrow`, which asks for pandas and does not use it."""
    kind = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    udf: Any = UserDefinedFunction(function, returnType=columns, evalType=kind)
    given: Any = udf(*(rows[name] for name in rows.columns))
    java: Any = rows._jdf  # pyright: ignore[reportPrivateUsage]
    return DataFrame(java.mapInArrow(given._jc, False, None), rows.sparkSession)
