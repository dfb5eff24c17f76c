"""Attempts: one row for each time a worker claimed a job or file; and workers by the hour."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from waystation.pipeline.silver import fingerprints
from waystation.pipeline.silver.moves import OUTCOMES, READY
from waystation.pipeline.silver.steps import SUBJECT, in_order, is_claim, up_to_here
from waystation.pipeline.tables import ATTEMPTS

_FAILURES = ("failed", "retried")


def attempts(steps: DataFrame) -> DataFrame:
    """One row for each attempt, running ones included, from steps with lives.

    An attempt is the step that claims something, with what the steps around it say.
    """
    taken = _with_neighbours(steps).where(is_claim())
    wait = _millis("ready_at", "started_at")
    run = _millis("started_at", "ended_at")
    outcome = _outcome()
    failed = F.when(outcome.isin(*_FAILURES), F.coalesce("reason", F.lit("")))
    return taken.select(
        *SUBJECT,
        "life",
        "attempt",
        "worker",
        "ready_at",
        "started_at",
        "ended_at",
        # A clock that was set back must not make a wait negative.
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
    """The columns of the table `attempts`."""
    return attempts.select(*ATTEMPTS.names)


def _with_neighbours(steps: DataFrame) -> DataFrame:
    """Every step, with what the steps around it say about the attempt that begins with it."""
    event, at = F.col("event"), F.col("at")
    another = is_claim() | F.col("birth")
    marked = steps.withColumns(
        {
            "ready": _mark(at, event.isin(*READY), until=is_claim()),
            "end": _mark(at, F.lit(True), until=another),
            "ending": _mark(event, event.isin(*OUTCOMES), until=another),
            "message": _mark(F.col("reason"), F.col("reason").isNotNull(), until=another),
            "odd": _mark(F.col("_corrupt"), F.col("_corrupt").isNotNull(), until=another),
        }
    )
    earlier = F.last(F.when(F.col("birth"), F.col("taken")), ignorenulls=True).over(up_to_here())
    return marked.select(
        *SUBJECT,
        "life",
        (F.col("taken") - F.coalesce(earlier, F.lit(0))).cast("int").alias("attempt"),
        "event",
        "worker",
        _nearest("lag", "ready").alias("ready_at"),
        at.alias("started_at"),
        _nearest("lead", "end").alias("ended_at"),
        _nearest("lead", "ending").alias("ending"),
        F.coalesce("reason", _nearest("lead", "message")).alias("reason"),
        F.coalesce("_corrupt", _nearest("lead", "odd")).alias("odd"),
    )


def _mark(value: Column, where: Column, *, until: Column) -> Column:
    """A value that other steps may read; an empty one where their search must stop."""
    return F.when(where | until, F.struct(F.when(~until, value).alias("value")))


def _nearest(way: str, mark: str) -> Column:
    """The value of the nearest mark before a step (`lag`) or after it (`lead`)."""
    # A frame to the end would be read again for every step; lag and lead are not, and only SQL can
    # make them ignore nulls.
    return F.expr(f"{way}({mark}) IGNORE NULLS").over(in_order())["value"]


def _outcome() -> Column:
    named = F.create_map(*[F.lit(each) for pair in OUTCOMES.items() for each in pair])
    # BullMQ of Node names no worker and writes no event for a failed attempt, only a new wait.
    released = F.when(F.col("worker").isNull(), F.lit("retried")).otherwise(F.lit("returned"))
    return F.coalesce(
        named[F.col("ending")],
        F.when(F.col("ended_at").isNull(), F.lit("open")).otherwise(released),
    )


def _millis(start: str, end: str) -> Column:
    return F.unix_millis(F.col(end)) - F.unix_millis(F.col(start))


def workers(attempts: DataFrame) -> DataFrame:
    """One row for each worker and hour."""
    outcome = F.col("outcome")
    return (
        attempts.where(F.col("worker").isNotNull())
        .groupBy("line", "queue", "worker", F.date_trunc("hour", "started_at").alias("hour"))
        .agg(
            F.count("*").alias("attempts"),
            F.count_if(outcome == "completed").alias("completed"),
            F.count_if(outcome.isin("failed", "retried")).alias("failed"),
            F.count_if(outcome == "stalled").alias("stalled"),
            F.coalesce(F.sum("run_ms"), F.lit(0)).alias("busy_ms"),
            F.min("started_at").alias("first_at"),
            F.max(F.greatest("started_at", "ended_at")).alias("last_at"),
        )
    )
