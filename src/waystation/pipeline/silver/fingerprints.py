"""Fingerprints of failures as columns, computed by the core's rules in Python."""

from collections.abc import Callable
from typing import Any, cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from waystation.core import fingerprints as core
from waystation.pipeline.storage.arrow import pa, pc
from waystation.pipeline.storage.sql import Frame

Rule = Callable[[str], str | None]


def with_fingerprints(rows: Frame) -> Frame:
    """Rows with `error_class` and `fingerprint` of their `reason`."""
    return _with(rows, error_class=core.error_class, fingerprint=core.fingerprint)


def with_signature(rows: Frame) -> Frame:
    """Rows with the `signature` of their `reason`."""
    return _with(rows, signature=core.signature)


def _with(rows: Any, **columns: Rule) -> Any:
    # Python's patterns need no stack; Java's need a frame for each character of some texts, and
    # a task whose stack overflows ends the whole of Spark.
    if isinstance(rows, DataFrame):
        computed = {name: _column(of)(F.col("reason")) for name, of in columns.items()}
        return rows.withColumns(computed)
    for name, of in columns.items():
        rows = rows.append_column(name, _values(rows["reason"].combine_chunks(), of))
    return rows


def _column(of: Rule) -> Any:
    def values(reasons: Any) -> Any:
        return _values(reasons, of)

    # Spark reads there that whole arrays go in and come out.
    values.__annotations__ = {"reasons": pa.Array, "return": pa.Array}
    # The name of a type would be sent to the server, which a declared pipeline refuses.
    return cast(Any, F).arrow_udf(values, StringType())


def _values(reasons: Any, of: Rule) -> Any:
    """A rule over texts, asked once for each different one; null stays null."""
    encoded = reasons.cast(pa.string()).dictionary_encode()
    known = [of(each) for each in encoded.dictionary.to_pylist()]
    return pc.take(pa.array(known, pa.string()), encoded.indices)
