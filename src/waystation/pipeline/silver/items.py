"""Items: one row for each job or file, from its first event to its last."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from waystation.pipeline.silver.moves import ENDED, ENDS, STATES
from waystation.pipeline.silver.steps import ORDER, SUBJECT
from waystation.pipeline.tables import ITEMS


def items(steps: DataFrame, attempts: DataFrame) -> DataFrame:
    """One row for each life, from steps with lives and their attempts."""
    held = attempts.groupBy(*SUBJECT, "life").agg(
        F.sum("wait_ms").alias("wait_ms"),
        F.sum("run_ms").alias("run_ms"),
        F.count_if(F.col("outcome") == "retried").cast("int").alias("retries"),
        F.max_by("reason", F.when(F.col("reason").isNotNull(), F.col("attempt"))).alias("reason"),
        F.max_by("fingerprint", F.when(F.col("fingerprint").isNotNull(), F.col("attempt"))).alias(
            "fingerprint"
        ),
    )
    newest = F.max("life").over(Window.partitionBy(*SUBJECT))
    return (
        _lives(steps)
        .join(held, [*SUBJECT, "life"], "left")
        .withColumn("newest", F.col("life") == newest)
        # Its id was used again, so it was removed, with or without an event.
        .withColumn(
            "state",
            F.when(F.col("newest") | F.col("state").isin(*ENDED), F.col("state")).otherwise(
                F.lit("removed")
            ),
        )
        .select(
            *SUBJECT,
            "life",
            "name",
            "added_at",
            "started_at",
            "ended_at",
            "state",
            "attempts",
            F.coalesce("retries", F.lit(0)).alias("retries"),
            "stalls",
            "wait_ms",
            "run_ms",
            _total().alias("total_ms"),
            "reason",
            "fingerprint",
            "duplicates",
            "last_told_at",
            F.coalesce("odd", F.when(_between() < 0, F.lit("it ended before it was added"))).alias(
                "_corrupt"
            ),
            F.to_date(F.coalesce("added_at", "first_at")).alias("date"),
        )
    )


def rows(items: DataFrame) -> DataFrame:
    """The columns of the table `items`."""
    return items.select(*ITEMS.names)


def _lives(steps: DataFrame) -> DataFrame:
    event, at = F.col("event"), F.col("at")
    completed = F.count_if(event == "completed")
    return (
        steps.groupBy(*SUBJECT, "life")
        .agg(
            F.first("name", ignorenulls=True).alias("name"),
            F.min_by("at", F.when(F.col("birth"), F.struct(*ORDER))).alias("added_at"),
            F.min(at).alias("first_at"),
            F.min(F.when(event == "active", at)).alias("started_at"),
            _last_state().alias("where"),
            F.count_if(event == "active").cast("int").alias("attempts"),
            F.count_if(event == "stalled").cast("int").alias("stalls"),
            F.greatest(F.lit(0), completed - 1 - F.count_if(F.col("again")))
            .cast("int")
            .alias("duplicates"),
            F.max("told_at").alias("last_told_at"),
            F.first("_corrupt", ignorenulls=True).alias("odd"),
        )
        .withColumn("state", F.col("where.state"))
        .withColumn("ended_at", F.when(F.col("state").isin(*ENDED), F.col("where.at")))
    )


def _last_state() -> Column:
    """The last state and its instant; a job removed after its end keeps the state it ended in."""
    event = F.col("event")
    states = F.create_map(*[F.lit(each) for pair in STATES.items() for each in pair])
    # A retry and the wait after it share a millisecond: the wait counts.
    turn = F.struct(
        F.col("told_at"), F.when(event.isin("retry", "stalled"), -1).otherwise(F.col("seq"))
    )
    all_moves = F.max_by(F.struct(states[event].alias("state"), F.col("at").alias("at")), turn)
    without_removal = F.max_by(
        F.struct(states[event].alias("state"), F.col("at").alias("at")),
        F.when(~event.isin("removed", "cancelled"), turn),
    )
    return F.when(without_removal["state"].isin(*ENDS), without_removal).otherwise(all_moves)


def _between() -> Column:
    return F.unix_millis("ended_at") - F.unix_millis("added_at")


def _total() -> Column:
    return F.when(_between() >= 0, _between())
