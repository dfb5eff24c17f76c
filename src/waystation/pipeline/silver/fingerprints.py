"""Fingerprints of failures as columns; the patterns are the core's."""

from collections.abc import Callable
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from waystation.core import fingerprints as core
from waystation.core.fingerprints import (
    BARS,
    CAUSE,
    HANDLED,
    LONGEST,
    LOOKED_AT,
    MASKS,
    NAMES_A_CLASS,
    PYTHON,
    RAISED,
    TRACEBACK,
    WRAPPED,
)
from waystation.pipeline.storage.arrow import pa, pc
from waystation.pipeline.storage.sessions import is_connected
from waystation.pipeline.storage.sql import Frame


def with_fingerprints(rows: Frame) -> Frame:
    """Rows with `error_class` and `fingerprint` of their `reason`."""
    if isinstance(rows, DataFrame):
        reason = F.col("reason")
        if is_connected(rows.sparkSession):
            # The messages of Spark Connect cannot hold expressions as deep as ours.
            named = {"error_class": core.error_class, "fingerprint": core.fingerprint}
            return rows.withColumns({name: _by_python(of)(reason) for name, of in named.items()})
        return rows.withColumns(
            {"error_class": error_class(reason), "fingerprint": fingerprint(reason)}
        )
    return _with(rows, error_class=core.error_class, fingerprint=core.fingerprint)


def with_signature(rows: Frame) -> Frame:
    """Rows with the `signature` of their `reason`."""
    if isinstance(rows, DataFrame):
        return rows.withColumn("signature", signature(F.col("reason")))
    return _with(rows, signature=core.signature)


def _by_python(of: Callable[[str], str | None]) -> Any:
    """A function of Spark's that Python computes."""

    def value(reason: str | None) -> str | None:
        return None if reason is None else of(reason)

    # The name of a type would be sent to the server, which a declared pipeline refuses.
    return F.udf(value, StringType())


def _with(rows: Any, **columns: Callable[[str], str | None]) -> Any:
    """An Arrow table with more columns, each computed once for each different reason."""
    encoded = rows["reason"].cast(pa.string()).combine_chunks().dictionary_encode()
    known = encoded.dictionary.to_pylist()
    for name, of in columns.items():
        values = pa.array([of(each) for each in known], pa.string())
        rows = rows.append_column(name, pc.take(values, encoded.indices))
    return rows


def error_line(reason: Column) -> Column:
    """The line with the error: that of a traceback, else the last named cause, else the first."""
    end = F.regexp_replace(F.substring(reason, -LOOKED_AT, LOOKED_AT), "\r", "")
    first = F.regexp_extract(F.substring(reason, 1, LOOKED_AT), r"^\s*([^\r\n]*)", 1)
    return F.coalesce(_raised(reason), _found(end, CAUSE), first)


def signature(reason: Column) -> Column:
    """The message with ids, numbers, paths and quotations masked."""
    text = F.substring(error_line(reason), 1, 2000)
    for mask in MASKS:
        text = F.regexp_replace(text, mask.pattern, mask.replacement)
    return F.substring(F.trim(text), 1, LONGEST)


def error_class(reason: Column) -> Column:
    """The error class that a message names; null when it names none."""
    return F.coalesce(_found(error_line(reason), NAMES_A_CLASS), _found(_raised(reason), RAISED))


def fingerprint(reason: Column) -> Column:
    """A short hash of the signature; null where nothing failed."""
    return F.substring(F.sha2(signature(reason), 256), 1, 16)


def _raised(reason: Column) -> Column:
    """The error of a traceback of Python's; null where there is none."""
    text = F.regexp_replace(F.substring(reason, -LOOKED_AT, LOOKED_AT), "\r", "")
    for layer in (BARS, HANDLED, WRAPPED):
        text = F.regexp_replace(text, layer, "")
    return F.when(F.contains(reason, F.lit(TRACEBACK)), _found(text, PYTHON))


def _found(text: Column, pattern: str) -> Column:
    return F.nullif(F.regexp_extract(text, pattern, 1), F.lit(""))
