"""Steps: the events that change the state of a job or a file, and ranges of them.

A life is everything from the birth of a subject to its end. An id that is used again after its job
was removed begins another life, so that two jobs never look like one.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self, TypeAlias

from pyspark.sql import DataFrame

from waystation.core.events import Product
from waystation.pipeline.silver.moves import CHARGED, MOVES, NEW_STEPS, STEPS
from waystation.pipeline.storage.arrow import Array, Batch, pa, pc
from waystation.pipeline.storage.sql import quoted, texts
from waystation.pipeline.storage.task_files import map_in_arrow
from waystation.pipeline.tables import LAST_MS


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


SUBJECT = ("product", "queue", "job_id")
"""Columns that identify the subject of a step: a job or file."""
Subject: TypeAlias = tuple[str, str, str]
"""Values of these columns."""
PORTION = 65_536
"""Rows from which on calling Arrow costs little beside what it does."""
PORTION_BYTES = 64 << 20
"""Bytes from which on fewer rows are enough: an array of Arrow holds 2 GB of texts."""
ZONELESS = pa.timestamp("us")
"""The type of instants without UTC: Arrow counts with them ten times faster, or only with them."""

MOST_COST = 10**11
"""What a job can cost; sums of larger numbers would not fit."""


def _number(field: str, *, least: int = 0, most: int = MOST_COST) -> str:
    """SQL: a number above `least` in a field; null for whatever else a client has written."""
    value = f"try_cast(fields['{field}'] as double)"
    return f"case when {value} > {least} and {value} <= {most} then {value} end"


# Files have no event for their birth: the first wait is it. Visitors are no jobs: the waiting room
# has its own tables.
_COLUMNS = (
    *("product", "queue", "job_id", "recorded_at", "seq", "`at`", "event"),
    """coalesce(event in ('added', 'fired')
                or (event = 'waiting' and attempt = 1 and fields['prev'] is null),
                false) as birth""",
    """coalesce(event = 'redriven'
                or (event = 'waiting' and fields['prev'] in ('completed', 'failed', 'dead')),
                false) as again""",
    "nullif(worker, '') as worker",
    "coalesce(fields['name'], fields['type']) as name",
    "coalesce(fields['failedReason'], nullif(fields['error'], ''), fields['reason']) as reason",
    "nullif(fields['group'], '') as group",
    f"{_number('cost')} as cost",
    f"{_number('more', least=-MOST_COST)} as more",
    f"{_number('weight')} as weight",
    f"timestamp_millis(cast({_number('free', least=-1, most=LAST_MS)} as bigint)) as free_at",
    "_corrupt",
)
_ARE_STEPS = (
    f"product <> {quoted(Product.WAITINGROOM.value)} "
    f"and event in {texts((*MOVES, CHARGED))} and job_id <> ''"
)


def steps(events: DataFrame) -> DataFrame:
    """The events that change the state of a job or file, one row for each."""
    return events.where(_ARE_STEPS).selectExpr(*_COLUMNS)


SELDOM = ("name", "reason", "group", "cost", "more", "weight", "free_at", "_corrupt")
"""Columns that few steps have. They are one while Spark sorts, which takes memory and time for each
column of each row, also where it is empty."""


def in_order(steps: DataFrame) -> DataFrame:
    """Steps with all of a subject in one task, in the order of the stream, packed."""
    often = [f"`{name}`" for name in steps.columns if name not in SELDOM]
    seldom = [f"`{name}`" for name in SELDOM]
    # A list, because Spark writes all columns of a struct, even where there is none.
    has_any = " or ".join(f"{name} is not null" for name in seldom)
    packed = f"case when {has_any} then array(struct({', '.join(seldom)})) end as seldom"
    # The most selective column comes first, because sorting compares it first.
    order = ("job_id", "queue", "product", "recorded_at", "seq")
    return steps.selectExpr(*often, packed).repartition(*SUBJECT).sortWithinPartitions(*order)


def by_subject(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Steps in order, in portions that hold all of a subject."""
    held: list[Batch] = []
    for batch in batches:
        last = Ranges.of(_starts(batch)).first[-1].as_py()
        if last and _is_enough(portion := [*held, batch[:last]]):
            yield pa.concat_batches(portion)
            held, batch = [], batch[last:]
        held.append(batch)
    if held:
        yield pa.concat_batches(held)


def unpacked(steps: Batch) -> Batch:
    """Steps in order, with the columns that `in_order` makes one."""
    is_there = steps["seldom"].is_valid()
    some = pa.RecordBatch.from_struct_array(steps["seldom"].flatten())
    place = pc.if_else(is_there, numbers(is_there), None)
    steps = steps.drop_columns(["seldom"])
    for name in SELDOM:
        steps = steps.append_column(name, some[name].take(place))
    return steps


def _is_enough(batches: Sequence[Batch]) -> bool:
    rows = sum(each.num_rows for each in batches)
    return rows >= PORTION or sum(each.nbytes for each in batches) >= PORTION_BYTES


def subjects(steps: Batch) -> Array:
    """The number of each step's subject in a portion."""
    return numbers(_starts(steps))


def _starts(steps: Batch) -> Array:
    return starts(*(steps[name] for name in SUBJECT))


def with_context(steps: DataFrame) -> DataFrame:
    """Steps with what those before them say, so that each can be counted on its own."""
    return map_in_arrow(in_order(steps), _in_context, NEW_STEPS.schema)


def _in_context(batches: Iterable[Batch]) -> Iterator[Batch]:
    for steps in map(unpacked, by_subject(batches)):
        yield in_context(steps, subjects(steps))


def in_context(steps: Batch, subject: Array) -> Batch:
    """Steps in order, with what those before them of the same subject say.

    This is the event before, if it was in the same hour (`earlier`), and whether a failure is
    told again (`repeated`): a dead letter that failed in the same instant has two events, and
    counts once. A step of the same entry as the one before was stored twice (`doubled`).
    """
    event, recorded_at, hour = steps["event"], steps["recorded_at"], hours(steps["at"])
    before = pa.concat_arrays([pa.nulls(1, event.type), event])[:-1]
    begins = starts(subject)
    failing = pc.is_in(event, pa.array(["failed", "dead"]))
    of_subject = Ranges.of(begins).first.take(numbers(begins))
    last = Ranges(of_subject, pa.arange(0, len(event))).last(failing)
    same = [pc.equal(each, each.take(last)) for each in (recorded_at, hour)]
    repeated = pc.fill_null(pc.and_(failing, pc.and_(*same)), False)
    columns = {
        "earlier": pc.if_else(starts(subject, hour), None, before),
        "repeated": repeated,
        "doubled": pc.invert(starts(subject, recorded_at, steps["seq"], event)),
    }
    return pa.record_batch({**{name: steps[name] for name in STEPS.names}, **columns})


def hours(instants: Array) -> Array:
    """The hours that instants lie in."""
    return pc.floor_temporal(instants.cast(ZONELESS), unit="hour").cast(instants.type)


def arrival_hours(rows: Any, added_at: str) -> Array:
    """The hours in which subjects arrived: those that nobody saw, at the start of their days."""
    at = rows[added_at]
    return hours(pc.coalesce(at, rows["date"].cast(ZONELESS).cast(at.type)))
