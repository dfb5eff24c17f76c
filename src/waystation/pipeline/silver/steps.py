"""Steps: the events that change the state of a job or a file.

A life is everything from the birth of a subject to its end. An id that is used again after its job
was removed begins another life, so that two jobs never look like one.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from pyspark.sql import DataFrame

from waystation.core.events import Product
from waystation.pipeline.silver.moves import MOVES, NEW_STEPS, STEPS
from waystation.pipeline.silver.ranges import Ranges, numbers, starts
from waystation.pipeline.storage.arrow import Array, Batch, pa, pc
from waystation.pipeline.storage.sql import quoted, texts
from waystation.pipeline.storage.task_files import map_in_arrow

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
    "_corrupt",
)
_ARE_STEPS = (
    f"product <> {quoted(Product.WAITINGROOM.value)} and event in {texts(MOVES)} and job_id <> ''"
)


def steps(events: DataFrame) -> DataFrame:
    """The events that change the state of a job or file, one row for each."""
    return events.where(_ARE_STEPS).selectExpr(*_COLUMNS)


def in_order(steps: DataFrame) -> DataFrame:
    """Steps with all of a subject in one task, in the order of the stream."""
    # The most selective column comes first, because sorting compares it first.
    order = ("job_id", "queue", "product", "recorded_at", "seq")
    return steps.repartition(*SUBJECT).sortWithinPartitions(*order)


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
    for steps in by_subject(batches):
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
