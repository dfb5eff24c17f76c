"""Attempts: one row for each time a worker held something."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from waystation.pipeline.silver import failing
from waystation.pipeline.silver.steps import READY, TURN, WHO
from waystation.pipeline.tables import ATTEMPTS

_LETS_GO = ("completed", "failed", "dead", "retry", "stalled", "returned", "cancelled", "removed")
"""Events that say how an attempt ended; the first one counts."""
_OUTCOME = {
    "completed": "completed",
    "failed": "failed",
    "dead": "failed",
    "retry": "retried",
    "stalled": "stalled",
    "returned": "returned",
    "cancelled": "returned",
    "removed": "returned",
}
_FAILURES = ("failed", "retried")


def attempts(lived: DataFrame) -> DataFrame:
    """Fold what `lived` tells into one row for each attempt, those still running included."""
    folded = (
        _with_ready(lived)
        .where(F.col("attempt") > 0)
        .groupBy(*WHO, "life", "attempt")
        .agg(
            _first(F.col("worker"), _is_start()).alias("worker"),
            _first(F.col("ready"), _is_start()).alias("ready_at"),
            _first(F.col("at"), _is_start()).alias("started_at"),
            _first(F.col("at"), ~_is_start()).alias("ended_at"),
            _first(F.col("event"), F.col("event").isin(*_LETS_GO)).alias("told"),
            _first(F.col("reason"), F.col("reason").isNotNull()).alias("reason"),
            F.first("_corrupt", ignorenulls=True).alias("odd"),
        )
    )
    wait = _millis("ready_at", "started_at")
    run = _millis("started_at", "ended_at")
    outcome = _outcome()
    failed = F.when(outcome.isin(*_FAILURES), F.coalesce("reason", F.lit("")))
    return folded.select(
        *WHO,
        "life",
        F.col("attempt").cast("int").alias("attempt"),
        "worker",
        "ready_at",
        "started_at",
        "ended_at",
        # A clock that was set back makes no wait shorter than none.
        F.when(wait >= 0, wait).alias("wait_ms"),
        F.when(run >= 0, run).alias("run_ms"),
        outcome.alias("outcome"),
        failing.error_class(failed).alias("error_class"),
        failing.fingerprint(failed).alias("fingerprint"),
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


def _with_ready(lived: DataFrame) -> DataFrame:
    """When it could have been taken last, beside each step."""
    before = (
        Window.partitionBy(*WHO, "life").orderBy(*TURN).rowsBetween(Window.unboundedPreceding, -1)
    )
    is_ready = F.col("event").isin(*READY)
    ready = F.last(F.when(is_ready, F.struct("attempt", "at")), ignorenulls=True).over(before)
    # One that was told before an earlier attempt says nothing about this one.
    return lived.withColumn("ready", F.when(ready["attempt"] == F.col("attempt") - 1, ready["at"]))


def _is_start() -> Column:
    return F.col("event") == "active"


def _first(value: Column, condition: Column) -> Column:
    return F.min_by(value, F.when(condition, F.col("_order")))


def _outcome() -> Column:
    named = F.create_map(*[F.lit(each) for pair in _OUTCOME.items() for each in pair])
    # BullMQ of Node tells neither who works nor that an attempt failed, only that it waits again.
    let_go = F.when(F.col("worker").isNull(), F.lit("retried")).otherwise(F.lit("returned"))
    return F.coalesce(
        named[F.col("told")], F.when(F.col("ended_at").isNull(), F.lit("open")).otherwise(let_go)
    )


def _millis(start: str, end: str) -> Column:
    return F.unix_millis(F.col(end)) - F.unix_millis(F.col(start))
