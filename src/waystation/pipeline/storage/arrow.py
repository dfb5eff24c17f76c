"""Arrow, which comes without types, under one roof."""

from typing import Any, TypeAlias, cast

import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.compute  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.fs  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs]
from pyspark.sql.pandas.types import (
    to_arrow_schema,  # pyright: ignore[reportUnknownVariableType]
)
from pyspark.sql.types import StructType

pa: Any = pyarrow
pc: Any = pyarrow.compute
pq: Any = pyarrow.parquet
fs: Any = pyarrow.fs

Array: TypeAlias = Any
Batch: TypeAlias = Any
"""A record batch: columns of equal length."""
Kind: TypeAlias = Any
"""The type of a column."""

Invalid: type[Exception] = pa.ArrowInvalid


def schema_of(columns: StructType) -> Any:
    """Spark's columns as Arrow has them when they leave or enter Spark."""
    return cast(Any, to_arrow_schema)(columns, timezone="UTC")
