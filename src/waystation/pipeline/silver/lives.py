"""Lives: the steps of each job or file, folded into its attempts, its item and its failures.

Tasks fold portions of Arrow that hold all steps of a subject, in order. The steps that were known
before a batch are folded twice, without the new ones and with them; what differs is what the batch
has changed. So there is no rule of its own for a job that ended before and goes on, nor for an
attempt that was stored before.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from waystation.pipeline.silver.folding import Folded, folded, grouped
from waystation.pipeline.silver.moves import OPEN_ATTEMPTS, OPEN_FAILURES, OPEN_ITEMS, STEPS
from waystation.pipeline.silver.steps import (
    SUBJECT,
    Ranges,
    arrival_hours,
    by_subject,
    hours,
    in_context,
    in_order,
    starts,
    subjects,
)
from waystation.pipeline.storage.arrow import Array, Batch, pa, pc
from waystation.pipeline.tables import ATTEMPTS, FAILED_ITEMS, INSTANT, ITEMS, Column, Layer, Table

FOLDED = (ATTEMPTS, ITEMS, FAILED_ITEMS)
"""The tables that lives are folded into."""
_OPEN = dict(zip(FOLDED, (OPEN_ATTEMPTS, OPEN_ITEMS, OPEN_FAILURES), strict=True))
RETURNED = Table(
    name="returned",
    layer=Layer.SILVER,
    meaning="subjects with a new step of which nothing is known",
    key=SUBJECT,
    columns=tuple(each for each in STEPS.columns if each.name in (*SUBJECT, "recorded_at", "seq")),
)
"""Subjects that have returned, each with its first new step."""
HOURS = Table(
    name="hours",
    layer=Layer.SILVER,
    meaning="hours in which something has changed",
    key=("hour",),
    columns=(Column("hour", INSTANT, "start of the hour"),),
)
"""The hours of new steps, of attempts that have changed, and of the arrivals of jobs that are no
longer counted as ended."""


def rows(known: DataFrame, new: DataFrame) -> DataFrame:
    """Known steps and new ones, in the order in which `changes` takes them."""
    old, fresh = known.withColumn("is_new", F.lit(False)), new.withColumn("is_new", F.lit(True))
    return in_order(old.unionByName(fresh))


def changes(batches: Iterable[Batch], *, can_return: bool = True) -> Iterator[Mapping[str, Batch]]:
    """What new steps change, beside known ones of the same subjects.

    These are rows to be added to a table (`items`) and to be deleted from it (`gone_items`); as
    they are after the batch and were not before, in whatever table (`added_items`), and the other
    way round (`removed_items`); steps, attempts and items that are open now; and subjects that have
    returned, unless they cannot: what is known of them must be read first.
    """
    touched: set[Any] = set()
    for steps in by_subject(batches):
        changed = _changes(steps, can_return=can_return)
        touched |= {hour for each in _touched(changed) for hour in pc.unique(each).to_pylist()}
        yield changed
    yield {HOURS.name: pa.record_batch({"hour": pa.array(touched, pa.timestamp("us", tz="UTC"))})}


def _touched(changed: Mapping[str, Batch]) -> Iterator[Array]:
    """The hours that gold is told of."""
    yield hours(changed["added_steps"]["at"])
    for name in ("added_attempts", "removed_attempts"):
        yield hours(changed[name]["started_at"])
    # They were counted as ended in the hours in which they were added.
    yield arrival_hours(changed["gone_items"], "added_at")


def _changes(steps: Batch, *, can_return: bool) -> dict[str, Batch]:
    subject, is_new = subjects(steps), steps["is_new"]
    each = Ranges.of(starts(subject))
    news = each.total(is_new)
    # A job_id has returned when nothing is known of it and its first step is no birth: it has
    # ended, or nobody has heard of it.
    is_unknown = pc.and_(pc.equal(news, each.sizes), can_return)
    returned = pc.and_(is_unknown, pc.invert(steps["birth"].take(each.first)))
    touched = pc.greater(news, 0).take(subject)
    steps = steps.append_column("subject", subject).append_column("touched", touched)
    after = folded(steps.filter(pc.invert(returned.take(subject))))
    before = folded(steps.filter(pc.and_(touched, pc.invert(is_new))))
    first = steps.take(each.first.filter(returned))
    changed = {RETURNED.name: first.select(RETURNED.names), **_steps(after)}
    for table in FOLDED:
        changed |= _rows(table, after, before)
    return changed


def _steps(of: Folded) -> dict[str, Batch]:
    is_open = pc.invert(of.ended.take(of.life))
    steps = in_context(of.steps, of.steps["subject"])
    return {
        "added_steps": steps.filter(of.steps["is_new"]),
        STEPS.name: of.steps.filter(is_open).select(STEPS.names),
    }


def _rows(table: Table, after: Folded, before: Folded) -> dict[str, Batch]:
    more, gone = _different(after.where(table, after.ended), before.where(table, before.ended))
    every = before.rows[table.name].select(table.names)
    added, removed = _different(after.where(table, after.touched), every)
    return {
        table.name: more,
        f"gone_{table.name}": gone,
        f"added_{table.name}": added,
        f"removed_{table.name}": removed,
        _OPEN[table].name: after.where(table, pc.invert(after.ended)),
    }


def _different(these: Batch, those: Batch) -> tuple[Batch, Batch]:
    """The rows of either that the other has not."""
    if not those.num_rows:
        return these, those
    both, names = pa.concat_batches([these, those]), these.schema.names
    row = pa.arange(0, both.num_rows)
    sign = pc.if_else(pc.less(row, these.num_rows), 1, -1)
    signed = pa.table([*both.columns, row, sign], [*names, "a_row", "sign"])
    net = grouped(signed, names, ("a_row", "min"), ("sign", "sum"))
    rows, left = net["a_row_min"], net["sign_sum"]
    return both.take(rows.filter(pc.greater(left, 0))), both.take(rows.filter(pc.less(left, 0)))
