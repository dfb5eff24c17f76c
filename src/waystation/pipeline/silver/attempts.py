"""Attempts: one row for each time a worker held something."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from waystation.pipeline.silver import fingerprints
from waystation.pipeline.silver.steps import READY, WHO, in_turn, so_far, takes
from waystation.pipeline.tables import ATTEMPTS

OUTCOMES = {
    "completed": "completed",
    "failed": "failed",
    "dead": "failed",
    "retry": "retried",
    "stalled": "stalled",
    "returned": "returned",
    "cancelled": "returned",
    "removed": "returned",
}
"""How an attempt ended, by the event that says so; the first one counts."""
_FAILURES = ("failed", "retried")


def attempts(lived: DataFrame) -> DataFrame:
    """One row for each attempt, those still running included.

    An attempt is the step that takes something, with what was told before and after it.
    """
    taken = _surrounded(lived).where(takes())
    wait = _millis("ready_at", "started_at")
    run = _millis("started_at", "ended_at")
    outcome = _outcome()
    failed = F.when(outcome.isin(*_FAILURES), F.coalesce("reason", F.lit("")))
    return taken.select(
        *WHO,
        "life",
        "attempt",
        "worker",
        "ready_at",
        "started_at",
        "ended_at",
        # A clock that was set back makes no wait shorter than none.
        F.when(wait >= 0, wait).alias("wait_ms"),
        F.when(run >= 0, run).alias("run_ms"),
        outcome.alias("outcome"),
        fingerprints.error_class(failed).alias("error_class"),
        fingerprints.fingerprint(failed).alias("fingerprint"),
        failed.alias("reason"),
        F.coalesce(
            "odd",
            F.when(wait < 0, F.lit("it was started before it was ready")),
            F.when(run < 0, F.lit("it ended before it was started")),
        ).alias("_corrupt"),
        F.to_date("started_at").alias("date"),
    )


def rows(attempts: DataFrame) -> DataFrame:
    """Attempts as the table has them."""
    return attempts.select(*ATTEMPTS.names)


def _surrounded(lived: DataFrame) -> DataFrame:
    """Every step, with what the steps around it tell about the attempt that begins with it."""
    event, at = F.col("event"), F.col("at")
    another = takes() | F.col("birth")
    marked = lived.withColumns(
        {
            "ready": _mark(at, event.isin(*READY), until=takes()),
            "end": _mark(at, F.lit(True), until=another),
            "told": _mark(event, event.isin(*OUTCOMES), until=another),
            "saying": _mark(F.col("reason"), F.col("reason").isNotNull(), until=another),
            "odd": _mark(F.col("_corrupt"), F.col("_corrupt").isNotNull(), until=another),
        }
    )
    earlier = F.last(F.when(F.col("birth"), F.col("taken")), ignorenulls=True).over(so_far())
    return marked.select(
        *WHO,
        "life",
        (F.col("taken") - F.coalesce(earlier, F.lit(0))).cast("int").alias("attempt"),
        "event",
        "worker",
        _nearest("lag", "ready").alias("ready_at"),
        at.alias("started_at"),
        _nearest("lead", "end").alias("ended_at"),
        _nearest("lead", "told").alias("told"),
        F.coalesce("reason", _nearest("lead", "saying")).alias("reason"),
        F.coalesce("_corrupt", _nearest("lead", "odd")).alias("odd"),
    )


def _mark(value: Column, where: Column, *, until: Column) -> Column:
    """A value for whoever looks from another step; nothing to be had where the look must end."""
    return F.when(where | until, F.struct(F.when(~until, value).alias("value")))


def _nearest(way: str, mark: str) -> Column:
    """What the nearest mark holds, before a step (`lag`) or after it (`lead`)."""
    # A frame that reaches to the end would be walked anew for every step; these two are not, and
    # only SQL can ask them to pass over nulls.
    return F.expr(f"{way}({mark}) IGNORE NULLS").over(in_turn())["value"]


def _outcome() -> Column:
    named = F.create_map(*[F.lit(each) for pair in OUTCOMES.items() for each in pair])
    # BullMQ of Node tells neither who works nor that an attempt failed, only that it waits again.
    let_go = F.when(F.col("worker").isNull(), F.lit("retried")).otherwise(F.lit("returned"))
    return F.coalesce(
        named[F.col("told")], F.when(F.col("ended_at").isNull(), F.lit("open")).otherwise(let_go)
    )


def _millis(start: str, end: str) -> Column:
    return F.unix_millis(F.col(end)) - F.unix_millis(F.col(start))
