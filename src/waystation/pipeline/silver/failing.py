"""When two failures are one failure: what they say, with what differs left out."""

from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

LONGEST = 200
"""Characters of a signature; what differs further on makes no other failure."""


class Blank(NamedTuple):
    """A kind of detail, and what stands in its place."""

    pattern: str
    stand_in: str


BLANKS = (
    Blank(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"<>]+", "<url>"),
    Blank(r"[\w.+-]+@[\w-]+(\.[\w-]+)+", "<email>"),
    Blank(
        r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b", "<id>"
    ),
    Blank(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?([.,]\d+)?(Z|[+-]\d\d:?\d\d)?", "<time>"),
    Blank(r"\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b", "<address>"),
    Blank(r"(?<![\w.])(/[\w.@%+~-]+){2,}/?", "<path>"),
    Blank(r"\b0x[0-9a-fA-F]+\b", "<hex>"),
    # Letters and digits mixed, and long: nobody's word.
    Blank(r"\b(?=[0-9a-fA-F]*\d)(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{8,}\b", "<hex>"),
    Blank(r"'[^']{0,200}'", "<text>"),
    Blank(r'"[^"]{0,200}"', "<text>"),
    Blank(r"\d+([.,]\d+)*", "<n>"),
    Blank(r"\s+", " "),
)
"""In this order: what is special before what is general."""

NAMES_A_CLASS = r"^\s*([A-Za-z_][\w.]*(?:Error|Exception|Warning|Timeout|Failure|Exit|Interrupt))\b"


def signature(reason: Column) -> Column:
    """What a failure says, with ids, numbers, paths and quotations left out."""
    # The first line says what, the others say where.
    text = F.substring_index(F.substring(reason, 1, 2000), "\n", 1)
    for blank in BLANKS:
        text = F.regexp_replace(text, blank.pattern, blank.stand_in)
    return F.substring(F.trim(text), 1, LONGEST)


def error_class(reason: Column) -> Column:
    """The kind of failure that a reason names; null when it names none."""
    return F.nullif(F.regexp_extract(reason, NAMES_A_CLASS, 1), F.lit(""))


def fingerprint(reason: Column) -> Column:
    """The same short word for failures that are one failure; null where nothing failed."""
    return F.substring(F.sha2(signature(reason), 256), 1, 16)
