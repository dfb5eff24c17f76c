"""Mergeable percentiles: KLL sketches of a few kilobytes each."""

from pyspark.sql import Column
from pyspark.sql import functions as F


def sketch(values: Column) -> Column:
    """A sketch of integers, from which percentiles can be read; null without values."""
    return F.when(F.count(values) > 0, F.kll_sketch_agg_bigint(values))


def merged(sketches: Column) -> Column:
    """One sketch of several."""
    return F.when(F.count(sketches) > 0, F.kll_merge_agg_bigint(sketches))


def percentile(sketch: Column, part: float) -> Column:
    """The percentile of a sketch; null without a sketch."""
    value = F.kll_sketch_get_quantile_bigint(sketch, F.lit(part))
    return F.when(sketch.isNotNull(), value).cast("double")
