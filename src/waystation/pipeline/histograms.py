"""Histograms of milliseconds, from which percentiles can be read, and which can be added up.

A bucket is named by its least value. Values below 128 have a bucket each; above, a power of two has
64 buckets, so that a percentile is off by less than one in a hundred.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

PERCENTILES = (0.5, 0.95, 0.99)
Histogram = Sequence[tuple[int, int]]
"""Buckets and how many values each has, in order."""


def bucket(value: str) -> str:
    """SQL: the bucket of a value."""
    shift = f"(length(bin({value})) - 7)"
    # Within an array Spark's parser takes >> for the end of a type.
    least = f"shiftleft(shiftright({value}, {shift}), {shift})"
    return f"case when {value} < 128 then {value} else {least} end"


def middle(bucket: str) -> str:
    """SQL: the value that stands for a bucket."""
    width = f"pow(2, greatest(0, length(bin({bucket})) - 7))"
    return f"cast({bucket} + ({width} - 1) / 2 as double)"


def summed(histograms: Iterable[Histogram | None]) -> Histogram:
    """One histogram of several."""
    total = Counter[int]()
    for each in histograms:
        total.update(dict(each or ()))
    return sorted(total.items())


def percentile(histogram: Histogram, part: float) -> float | None:
    """A percentile; None without values."""
    wanted = part * sum(many for _, many in histogram)
    upto = 0
    for least, many in histogram:
        upto += many
        if upto >= wanted:
            return least + (2 ** max(0, least.bit_length() - 7) - 1) / 2
    return None
