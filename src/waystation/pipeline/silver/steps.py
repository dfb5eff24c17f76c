"""Steps: the events that change the state of a job or a file.

A life is everything from the birth of a subject to its end. An id that is used again after its job
was removed begins another life, so that two jobs never look like one.
"""

from typing import TypeAlias

from pyspark.sql import DataFrame

from waystation.core.events import Product
from waystation.pipeline.silver.moves import MOVES, STEPS
from waystation.pipeline.storage.sql import quoted, texts

SUBJECT = ("product", "queue", "job_id")
"""Columns that identify the subject of a step: a job or file."""
Subject: TypeAlias = tuple[str, str, str]
"""Values of these columns."""

IN_ORDER = "partition by job_id, queue, product order by recorded_at, seq"
"""The window of one job_id's steps, in the order of the stream.

All window functions use this one, so that steps are shuffled and sorted once. The most selective
column comes first, because sorting compares it first.
"""
IS_CLAIM = "event = 'active'"
"""Condition: a worker claims the subject with this step."""

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
MARKED = (
    "date_trunc('hour', `at`) as `hour`",
    "case when event in ('failed', 'dead') then struct(recorded_at, date_trunc('hour', `at`)) end"
    " as failing",
)
"""Columns that the context of a step is found by."""


def context(turn: str) -> tuple[str, ...]:
    """What marked steps are told by those before them, in a window of one job's steps.

    These are the event before, if it was in the same hour (`earlier`), and whether a failure is
    told again (`repeated`): a dead letter that failed in the same instant has two events, and
    counts once. A step of the same entry as the one before was stored twice (`doubled`).
    """
    entry = "struct(struct(recorded_at, seq), event)"
    return (
        f"case when lag(`hour`) over ({turn}) = `hour` then lag(event) over ({turn}) end"
        " as earlier",
        f"coalesce(failing = lag(failing) ignore nulls over ({turn}), false) as repeated",
        f"coalesce({entry} = lag({entry}) over ({turn}), false) as doubled",
    )


def steps(events: DataFrame) -> DataFrame:
    """The events that change the state of a job or file, one row for each."""
    return events.where(_ARE_STEPS).selectExpr(*_COLUMNS)


def with_context(steps: DataFrame) -> DataFrame:
    """Steps with their context, so that each can be counted on its own."""
    marked = steps.selectExpr("*", *MARKED)
    return marked.selectExpr(*(f"`{name}`" for name in STEPS.names), *context(IN_ORDER))
