"""Failures: the most frequent signatures of each queue, and whether retries help."""

from collections.abc import Mapping
from typing import Any

EXAMPLES = 5
MOST_KINDS = 100
"""Signatures of one queue that have a row of their own: the most frequent ones."""
OTHER = "other"
"""The fingerprint of the row for all others."""


def label(row: Mapping[str, Any]) -> str:
    """The text of a row in reports."""
    if row["fingerprint"] == OTHER:
        return f"{row['kinds']:,} other kinds of failure"
    return row["signature"] or "no error message"
