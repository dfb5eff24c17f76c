"""Steps: the events that move a job or a file along, without what else they tell.

A life is what happens to a subject from its birth until it ends. An id that is used again after its
job was removed begins another life, so that two jobs never look like one.
"""

from typing import TypeAlias

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.window import WindowSpec

from waystation.core.events import EventName, Line
from waystation.pipeline.tables import FLAG, INSTANT, LONG, TEXT, Layer, Table
from waystation.pipeline.tables import Column as Told

WHO = ("line", "queue", "subject")
"""What makes two steps steps of one subject."""
Who: TypeAlias = tuple[str, str, str]
"""The same as values."""
TURN = ("told_at", "seq")
"""The order in which a stream tells."""

READY = ("added", "fired", "waiting", "redriven", "returned", "retry", "stalled")
"""After these somebody may take it."""
ENDS = ("completed", "failed", "dead", "removed", "cancelled")
"""After these nobody will, unless it is put back."""
MOVES = (*READY, *ENDS, "delayed", "waiting-children", "active")

STEPS = Table(
    name="open",
    layer=Layer.SILVER,
    meaning="the steps of everything that has not ended: what one batch hands to the next",
    key=("line", "queue", "subject", "told_at", "seq"),
    columns=(
        Told("line", TEXT, "which line"),
        Told("queue", TEXT, "which queue of the line"),
        Told("subject", TEXT, "the job or file"),
        Told("told_at", INSTANT, "when it was told, by the store's clock"),
        Told("seq", LONG, "its turn among the entries of one millisecond"),
        Told("at", INSTANT, "when it happened"),
        Told("event", TEXT, "what happened"),
        Told("birth", FLAG, "whether a life begins with it"),
        Told("again", FLAG, "whether it takes back an end"),
        Told("worker", TEXT, "by whom"),
        Told("name", TEXT, "what kind of job it is"),
        Told("reason", TEXT, "what a failure said"),
        Told("_corrupt", TEXT, "what was odd about it"),
    ),
)


def steps(events: DataFrame) -> DataFrame:
    """The steps among events, one for each; the rest says nothing about where a subject is."""
    field = F.col("fields").getItem
    is_birth = F.col("event").isin(EventName.ADDED, EventName.FIRED) | (
        # Files have no word for it: the first wait is the birth.
        (F.col("event") == EventName.WAITING) & (F.col("attempt") == 1) & field("prev").isNull()
    )
    takes_back = (F.col("event") == EventName.REDRIVEN) | (
        (F.col("event") == EventName.WAITING) & field("prev").isin("completed", "failed", "dead")
    )
    # People are no work: their line folds what it is told about them itself.
    is_work = F.col("line") != Line.WAITINGROOM.value
    is_step = F.col("event").isin(*MOVES) & (F.col("subject") != "")
    return events.where(is_work & is_step).select(
        *WHO,
        *TURN,
        "at",
        "event",
        F.coalesce(is_birth, F.lit(False)).alias("birth"),
        F.coalesce(takes_back, F.lit(False)).alias("again"),
        F.nullif(F.col("worker"), F.lit("")).alias("worker"),
        F.coalesce(field("name"), field("type")).alias("name"),
        F.coalesce(field("failedReason"), field("error"), field("reason")).alias("reason"),
        "_corrupt",
    )


def lived(steps: DataFrame) -> DataFrame:
    """Steps with the life that they belong to, and how often the subject was taken so far.

    Lives are counted from 1; what comes before the first birth that was seen is life 0.
    """
    return steps.withColumns(
        {
            "life": F.sum(F.col("birth").cast("int")).over(so_far()),
            "taken": F.sum(takes().cast("int")).over(so_far()),
        }
    )


def in_turn() -> WindowSpec:
    """The steps of one subject, in the order they were told.

    Whatever looks at several steps looks through this window, so that they are shuffled and sorted
    once. What tells most subjects apart comes first, because sorting compares it first.
    """
    return Window.partitionBy(*reversed(WHO)).orderBy(*TURN)


def so_far() -> WindowSpec:
    """The steps of one subject, up to each of them."""
    return in_turn().rowsBetween(Window.unboundedPreceding, Window.currentRow)


def takes() -> Column:
    """Whether a step is that of somebody who takes the subject."""
    return F.col("event") == "active"
