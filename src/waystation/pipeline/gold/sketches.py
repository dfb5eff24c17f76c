"""Percentiles that can be merged: KLL sketches, a few kilobytes each whatever they have seen."""

from pyspark.sql import Column
from pyspark.sql import functions as F

MILLIS = "bigint"


def sketch(values: Column) -> Column:
    """Sum up whole numbers so that percentiles can be asked for later; null when there are none."""
    return F.when(F.count(values) > 0, F.kll_sketch_agg_bigint(values))


def merged(sketches: Column) -> Column:
    """One sketch of everything that several sketches have seen."""
    return F.when(F.count(sketches) > 0, F.kll_merge_agg_bigint(sketches))


def percentile(sketch: Column, part: float) -> Column:
    """The value that this part of what was seen does not exceed; null when nothing was seen."""
    value = F.kll_sketch_get_quantile_bigint(sketch, F.lit(part))
    return F.when(sketch.isNotNull(), value).cast("double")
