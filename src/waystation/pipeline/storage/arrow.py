"""PyArrow, which has no type stubs. Internal."""

from typing import Any, TypeAlias

import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.compute  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.dataset  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.fs  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs]

pa: Any = pyarrow
pc: Any = pyarrow.compute
pq: Any = pyarrow.parquet
fs: Any = pyarrow.fs
dataset: Any = pyarrow.dataset

Array: TypeAlias = Any
Batch: TypeAlias = Any
"""A record batch: columns of equal length."""
Kind: TypeAlias = Any
"""The type of a column."""

Invalid: type[Exception] = pa.ArrowInvalid
