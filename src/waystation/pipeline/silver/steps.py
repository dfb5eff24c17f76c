"""Steps: the events that change the state of a job or a file.

A life is everything from the birth of a subject to its end. An id that is used again after its job
was removed begins another life, so that two jobs never look like one.
"""

from typing import TypeAlias

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.window import WindowSpec

from waystation.core.events import EventName, Line
from waystation.pipeline.silver.moves import MOVES

SUBJECT = ("line", "queue", "subject")
"""Columns that identify the subject of a step: a job or file."""
Subject: TypeAlias = tuple[str, str, str]
"""Values of these columns."""
ORDER = ("told_at", "seq")
"""Columns that order the entries of a stream."""


def steps(events: DataFrame) -> DataFrame:
    """The events that change the state of a job or file, one row for each."""
    field = F.col("fields").getItem
    is_birth = F.col("event").isin(EventName.ADDED, EventName.FIRED) | (
        # Files have no event for it: the first wait is the birth.
        (F.col("event") == EventName.WAITING) & (F.col("attempt") == 1) & field("prev").isNull()
    )
    takes_back = (F.col("event") == EventName.REDRIVEN) | (
        (F.col("event") == EventName.WAITING) & field("prev").isin("completed", "failed", "dead")
    )
    # Visitors are no jobs: the waiting room has its own tables.
    is_work = F.col("line") != Line.WAITINGROOM.value
    is_step = F.col("event").isin(*MOVES) & (F.col("subject") != "")
    return events.where(is_work & is_step).select(
        *SUBJECT,
        *ORDER,
        "at",
        "event",
        F.coalesce(is_birth, F.lit(False)).alias("birth"),
        F.coalesce(takes_back, F.lit(False)).alias("again"),
        F.nullif(F.col("worker"), F.lit("")).alias("worker"),
        F.coalesce(field("name"), field("type")).alias("name"),
        F.coalesce(field("failedReason"), field("error"), field("reason")).alias("reason"),
        "_corrupt",
    )


def with_lives(steps: DataFrame) -> DataFrame:
    """Steps with the number of their life (`life`) and of claims so far (`taken`).

    Lives count from 1; steps before the first birth that was seen are life 0.
    """
    return steps.withColumns(
        {
            "life": F.sum(F.col("birth").cast("int")).over(up_to_here()),
            "taken": F.sum(is_claim().cast("int")).over(up_to_here()),
        }
    )


def in_order() -> WindowSpec:
    """The window of one subject's steps, in the order of the stream.

    All window functions use this one, so that steps are shuffled and sorted once. The most
    selective column comes first, because sorting compares it first.
    """
    return Window.partitionBy(*reversed(SUBJECT)).orderBy(*ORDER)


def up_to_here() -> WindowSpec:
    """The window of one subject's steps up to the current one."""
    return in_order().rowsBetween(Window.unboundedPreceding, Window.currentRow)


def is_claim() -> Column:
    """Condition: a worker claims the subject with this step."""
    return F.col("event") == "active"
