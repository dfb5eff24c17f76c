"""Ranges: rows of Arrow that follow each other and belong together, and what they say in sum."""

from typing import NamedTuple, Self

from waystation.pipeline.storage.arrow import Array, pa, pc


class Ranges(NamedTuple):
    """Ranges of rows; they may overlap, and may be empty."""

    first: Array
    """The first row of each."""
    beyond: Array
    """The row after the last of each."""

    @classmethod
    def of(cls, starts: Array) -> Self:
        """The ranges that begin where `starts` is true, each up to the next one."""
        first = pc.indices_nonzero(starts).cast(pa.int64())
        return cls(first, pa.concat_arrays([first, pa.array([len(starts)])])[1:])

    @classmethod
    def after_each_other(cls, sizes: Array) -> Self:
        """Ranges of these sizes, of which each begins where the one before it ends."""
        beyond = pc.cumulative_sum(sizes)
        return cls(pc.subtract(beyond, sizes), beyond)

    def where(self, kept: Array) -> Self:
        """Some of the ranges."""
        return type(self)(self.first.filter(kept), self.beyond.filter(kept))

    @property
    def sizes(self) -> Array:
        """How many rows each has."""
        return pc.subtract(self.beyond, self.first)

    def total(self, values: Array) -> Array:
        """The sum of the values in each, or how often they are true; what is missing counts 0."""
        sums = pc.cumulative_sum(pc.fill_null(values.cast(pa.int64()), 0))
        so_far = pa.concat_arrays([pa.array([0]), sums])
        return pc.subtract(so_far.take(self.beyond), so_far.take(self.first))

    def next(self, where: Array) -> Array:
        """The first row of each for which `where` is true; null when there is none."""
        rows = pc.fill_null_backward(_rows(where))
        found = pa.concat_arrays([rows, pa.nulls(1, rows.type)]).take(self.first)
        return pc.if_else(pc.less(found, self.beyond), found, None)

    def last(self, where: Array) -> Array:
        """The last row of each for which `where` is true; null when there is none."""
        rows = pc.fill_null_forward(_rows(where))
        found = pa.concat_arrays([pa.nulls(1, rows.type), rows]).take(self.beyond)
        return pc.if_else(pc.greater_equal(found, self.first), found, None)


def _rows(where: Array) -> Array:
    return pc.if_else(where, pa.arange(0, len(where)), pa.scalar(None, pa.int64()))


def starts(*columns: Array) -> Array:
    """Whether a row is the first, or differs in any of these columns from the one before it."""
    is_first = pa.repeat(pa.scalar(True), min(1, len(columns[0])))
    differs = [pc.not_equal(each[1:], each[:-1]) for each in columns]
    for more in differs[1:]:
        differs[0] = pc.or_(differs[0], more)
    return pa.concat_arrays([is_first, differs[0]])


def numbers(starts: Array) -> Array:
    """The number of the range that each row is in, from 0."""
    return pc.subtract(pc.cumulative_sum(starts.cast(pa.int64())), 1)
