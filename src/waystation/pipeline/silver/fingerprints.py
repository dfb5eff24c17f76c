"""Fingerprints of failures as columns, computed by the core's rules in Python."""

from collections.abc import Callable
from typing import Any, cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from waystation.core import fingerprints as core
from waystation.pipeline.storage.arrow import pa, pc

Rule = Callable[[str], str | None]


def with_fingerprints(rows: DataFrame) -> DataFrame:
    """Rows with `error_class` and `fingerprint` of their `reason`."""
    # Python's patterns need no stack; Java's need a frame for each character of some texts, and
    # a task whose stack overflows ends the whole of Spark.
    rules: dict[str, Rule] = {"error_class": core.error_class, "fingerprint": core.fingerprint}
    return rows.withColumns({name: _column(of)(F.col("reason")) for name, of in rules.items()})


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
