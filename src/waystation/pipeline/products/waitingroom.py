"""Waiting room: visits, sessions, abandonment, accuracy of wait estimates, fairness."""

import math

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from waystation.core.events import Line
from waystation.pipeline.products.facts import HistoryFrames, ProductFacts, ProductTable, State
from waystation.pipeline.products.room_places import open_ids
from waystation.pipeline.tables import INSTANT, INT, LONG, REAL, TEXT, Column, Layer, Table
from waystation.waitingroom.estimates.model import STEP
from waystation.waitingroom.redis.keys import RoomKeys

_ROOM = Column("queue", TEXT, "the room")
_LANE = Column("lane", INT, "0 normal, 1 elevated, 2 VIP, 3 premium")

VISITS = Table(
    name="visits",
    layer=Layer.SILVER,
    meaning="one row for each place in a waiting room, from joining to its outcome",
    key=("queue", "visitor"),
    columns=(
        _ROOM,
        Column("visitor", TEXT, "id of the place"),
        _LANE,
        Column("network", TEXT, "digest of the network address"),
        Column("joined_at", INSTANT, "when the visitor joined"),
        Column("seq", LONG, "position in the order of joining"),
        Column("ahead", LONG, "people ahead on joining: of the lane, or of higher ones"),
        Column("rate", REAL, "people of the lane admitted per second on joining"),
        Column("model", TEXT, "version of the model that estimated the wait"),
        Column("called_at", INSTANT, "when the visitor was first admitted"),
        Column("call_order", LONG, "order of the admissions"),
        Column("claimed_at", INSTANT, "when the visitor entered"),
        Column("gone_at", INSTANT, "when the visitor left or expired"),
        Column("ended_at", INSTANT, "when the session ended"),
        Column("recovered", LONG, "missed admissions that were recovered"),
        Column("waited_s", REAL, "seconds from joining to admission or leaving"),
        Column("outcome", TEXT, "completed, inside, missed, left, expired, called or waiting"),
    ),
)

SESSIONS = Table(
    name="sessions",
    layer=Layer.SILVER,
    meaning="one row for each session: how long a seat was held",
    key=("queue", "session"),
    columns=(
        _ROOM,
        Column("session", TEXT, "its id"),
        _LANE,
        Column("started_at", INSTANT, "when it began"),
        Column("ended_at", INSTANT, "when it ended; null while it is active"),
        Column("held_s", REAL, "seconds that the seat was held"),
        Column("views", LONG, "page views, where the event has them"),
        Column("ending", TEXT, "completed, cancelled or expired"),
    ),
)

FUNNEL = Table(
    name="funnel",
    layer=Layer.GOLD,
    meaning="one row for each room, lane and minute: visitors that took each step",
    key=("queue", "lane", "minute"),
    columns=(
        _ROOM,
        _LANE,
        Column("minute", INSTANT, "start of the minute"),
        Column("arrived", LONG, "joined"),
        Column("refused", LONG, "refused to join"),
        Column("called", LONG, "admitted"),
        Column("claimed", LONG, "entered"),
        Column("missed", LONG, "missed their admission"),
        Column("left", LONG, "left"),
        Column("expired", LONG, "expired without a heartbeat"),
        Column("completed", LONG, "completed their session"),
    ),
)

ABANDONMENT = Table(
    name="abandonment",
    layer=Layer.GOLD,
    meaning="rate of leaving, by people ahead and estimated wait on joining",
    key=("queue", "ahead_from", "told_from_s"),
    columns=(
        _ROOM,
        Column("ahead_from", LONG, "people ahead on joining: this power of four or more"),
        Column("told_from_s", LONG, "estimated wait in seconds: this power of two or more"),
        Column("people", LONG, "visitors that joined so"),
        Column("gone", LONG, "of them, left or expired before admission"),
        Column("watched_s", REAL, "seconds that they waited, in all"),
        Column("hazard", REAL, "share that leaves per second"),
    ),
)

ETA_CALIBRATION = Table(
    name="eta_calibration",
    layer=Layer.GOLD,
    meaning="factors between the formula's wait and the real one, by people ahead",
    key=("queue", "ahead_from"),
    columns=(
        _ROOM,
        Column("ahead_from", LONG, "people ahead on joining: this power of four or more"),
        Column("people", LONG, "median position on joining"),
        Column("visits", LONG, "visits in the sample"),
        Column("f10", REAL, "10th percentile of real wait / formula"),
        Column("f50", REAL, "median of real wait / formula"),
        Column("f90", REAL, "90th percentile"),
        Column("error", REAL, "mean error of the formula, as a share of the wait"),
        Column("theta", REAL, "share of the waiting visitors that leaves per second"),
    ),
)

FAIRNESS = Table(
    name="fairness",
    layer=Layer.GOLD,
    meaning="one row for each room, lane and hour: visitors overtaken, and the lane's share",
    key=("queue", "lane", "hour"),
    columns=(
        _ROOM,
        _LANE,
        Column("hour", INSTANT, "start of the hour"),
        Column("called", LONG, "visitors admitted"),
        Column("overtaken", LONG, "of them, admitted after somebody of the lane who joined later"),
        Column("share", REAL, "the lane's share of the room's admissions"),
        Column("wait_mean_s", REAL, "mean wait in seconds"),
        Column("wait_p90_s", REAL, "90th percentile"),
    ),
)


def visits(events: DataFrame) -> DataFrame:
    """One row for each visit, folded from its events."""
    ours = _ours(events).where(F.col("subject").isNotNull())
    joined = F.col("event").isin("waiting", "delayed")
    gone = (F.col("event") == "left") | (
        (F.col("event") == "expired") & (_field("reason") == "silent")
    )
    folded = ours.groupBy("queue", F.col("subject").alias("visitor")).agg(
        F.max(F.when(joined, _field("lane").cast("int"))).alias("lane"),
        F.max(F.when(joined, _field("network"))).alias("network"),
        _first(joined).alias("joined_at"),
        # A lottery may have changed the order between joining and admission.
        F.coalesce(
            F.min_by(_field("seq"), F.when(F.col("event") == "admitted", F.col("at"))),
            F.max(F.when(joined, _field("seq"))),
        )
        .cast("long")
        .alias("seq"),
        F.max(F.when(joined, _field("ahead").cast("long"))).alias("ahead"),
        F.max(F.when(joined, _field("rate").cast("double"))).alias("rate"),
        F.max(F.when(joined, _field("model"))).alias("model"),
        _first(F.col("event") == "admitted").alias("called_at"),
        _first(F.col("event") == "claimed").alias("claimed_at"),
        _first(gone).alias("gone_at"),
        _first(_ends_a_session()).alias("ended_at"),
        F.count_if(F.col("event") == "recovered").alias("recovered"),
        F.count_if(F.col("event") == "left").alias("_left"),
        F.count_if(F.col("event") == "missed").alias("_missed"),
    )
    until = F.coalesce("called_at", "gone_at")
    outcome = (
        F.when(F.col("ended_at").isNotNull(), "completed")
        .when(F.col("claimed_at").isNotNull(), "inside")
        .when(F.col("_left") > 0, "left")
        .when(F.col("gone_at").isNotNull(), "expired")
        .when(F.col("_missed") > 0, "missed")
        .when(F.col("called_at").isNotNull(), "called")
        .otherwise("waiting")
    )
    return (
        folded.where(F.col("joined_at").isNotNull())
        .withColumn("waited_s", _seconds(F.col("joined_at"), until))
        .withColumn("call_order", F.unix_micros("called_at"))
        .withColumn("outcome", outcome)
        .select(*VISITS.names)
    )


def sessions(events: DataFrame) -> DataFrame:
    """One row for each session, folded from its events."""
    ours = _ours(events)
    folded = ours.groupBy("queue", F.col("subject").alias("session")).agg(
        F.max(F.when(F.col("event") == "claimed", _field("lane").cast("int"))).alias("lane"),
        _first(F.col("event") == "claimed").alias("started_at"),
        _first(_ends_a_session()).alias("ended_at"),
        F.max(_field("views").cast("long")).alias("views"),
        F.max(F.when(_ends_a_session(), F.col("event"))).alias("ending"),
    )
    return (
        folded.where(F.col("started_at").isNotNull())
        .withColumn("held_s", _seconds(F.col("started_at"), F.col("ended_at")))
        .select(*SESSIONS.names)
    )


def funnel(events: DataFrame, visits: DataFrame) -> DataFrame:
    """One row for each room, lane and minute."""
    lanes = visits.select("queue", F.col("visitor").alias("subject"), F.col("lane").alias("_lane"))
    steps = {
        "arrived": F.col("event").isin("waiting", "delayed"),
        "refused": F.col("event") == "refused",
        "called": F.col("event") == "admitted",
        "claimed": F.col("event") == "claimed",
        "missed": F.col("event") == "missed",
        "left": F.col("event") == "left",
        "expired": (F.col("event") == "expired") & (_field("reason") == "silent"),
        "completed": F.col("event") == "completed",
    }
    lane = F.coalesce("_lane", _field("lane").cast("int"), F.lit(0))
    return (
        _ours(events)
        .where(F.col("subject").isNotNull())
        .join(lanes, ["queue", "subject"], "left")
        .groupBy("queue", lane.alias("lane"), F.date_trunc("minute", "at").alias("minute"))
        .agg(*(F.count_if(which).alias(name) for name, which in steps.items()))
        .select(*FUNNEL.names)
    )


def abandonment(visits: DataFrame) -> DataFrame:
    """One row for each group of visits by people ahead and estimated wait."""
    estimate = (F.col("ahead") + 1) / F.col("rate")
    return (
        visits.where((F.col("rate") > 0) & F.col("waited_s").isNotNull())
        .withColumn("ahead_from", _power(F.col("ahead"), 4))
        .withColumn("told_from_s", _power(estimate, 2))
        .withColumn("_gone", F.col("called_at").isNull())
        .groupBy("queue", "ahead_from", "told_from_s")
        .agg(
            F.count("*").alias("people"),
            F.count_if("_gone").alias("gone"),
            F.sum("waited_s").alias("watched_s"),
        )
        .withColumn("hazard", F.col("gone") / F.nullif(F.col("watched_s"), F.lit(0.0)))
        .select(*ABANDONMENT.names)
    )


def eta_calibration(visits: DataFrame) -> DataFrame:
    """One row for each group of visits by people ahead."""
    return spreads(visits).where(F.col("ahead_from").isNotNull()).select(*ETA_CALIBRATION.names)


def spreads(visits: DataFrame) -> DataFrame:
    """The rows of `eta_calibration`, and one for all visits of a room without `ahead_from`."""
    return (
        formula(visits)
        .withColumn("ahead_from", _power(F.col("ahead"), STEP))
        .groupingSets([("queue",), ("queue", "ahead_from")], "queue", "ahead_from")
        .agg(
            (F.floor(F.percentile("ahead", 0.5)) + 1).alias("people"),
            F.count("*").alias("visits"),
            F.percentile("ratio", 0.1).alias("f10"),
            F.percentile("ratio", 0.5).alias("f50"),
            F.percentile("ratio", 0.9).alias("f90"),
            F.mean(F.abs(1 / F.col("ratio") - 1)).alias("error"),
            F.max("theta").alias("theta"),
        )
    )


def hazards(visits: DataFrame) -> DataFrame:
    """One row for each room: `theta`, the share of waiting visitors that leaves per second."""
    gone = F.count_if(F.col("called_at").isNull() & F.col("gone_at").isNotNull())
    theta = F.least(F.lit(0.01), gone / F.nullif(F.sum("waited_s"), F.lit(0.0)))
    return visits.groupBy("queue").agg(F.coalesce(theta, F.lit(0.0)).alias("theta"))


def formula(visits: DataFrame) -> DataFrame:
    """Admitted visits with the wait by the formula, and the ratio of the real wait to it.

    W = ln(1 + θ·A / μ) / θ, as `waystation.waitingroom.estimates.model.closed_form` has it.
    """
    people = F.col("ahead") + 1
    share = F.col("theta") * people / F.col("rate")
    return (
        visits.join(hazards(visits), "queue")
        .where(F.col("called_at").isNotNull() & (F.col("rate") > 0) & (F.col("ahead") > 0))
        .withColumn(
            "formula_s",
            F.when(share < 1e-9, people / F.col("rate")).otherwise(F.log1p(share) / F.col("theta")),
        )
        .withColumn("ratio", F.col("waited_s") / F.col("formula_s"))
        .where(F.col("ratio") > 0)
    )


def fairness(visits: DataFrame) -> DataFrame:
    """One row for each room, lane and hour."""
    called = visits.where(F.col("called_at").isNotNull())
    before = (
        Window.partitionBy("queue", "lane")
        .orderBy("call_order")
        .rangeBetween(Window.unboundedPreceding, -1)
    )
    hourly = (
        called.withColumn("_overtook", F.max("seq").over(before) > F.col("seq"))
        .groupBy("queue", "lane", F.date_trunc("hour", "called_at").alias("hour"))
        .agg(
            F.count("*").alias("called"),
            F.count_if(F.coalesce("_overtook", F.lit(False))).alias("overtaken"),
            F.mean("waited_s").alias("wait_mean_s"),
            F.percentile("waited_s", 0.9).alias("wait_p90_s"),
        )
    )
    room = Window.partitionBy("queue", "hour")
    share = F.col("called") / F.sum("called").over(room)
    return hourly.withColumn("share", share).select(*FAIRNESS.names)


def _ours(events: DataFrame) -> DataFrame:
    return events.where(F.col("line") == Line.WAITINGROOM.value)


def _field(name: str) -> Expression:
    return F.col("fields")[name]


def _first(which: Expression) -> Expression:
    return F.min(F.when(which, F.col("at")))


def _ends_a_session() -> Expression:
    by_time = (F.col("event") == "expired") & (_field("reason") == "session")
    return F.col("event").isin("completed", "cancelled") | by_time


def _seconds(since: Expression, until: Expression) -> Expression:
    return (F.unix_millis(until) - F.unix_millis(since)) / 1000


def _power(value: Expression, base: int) -> Expression:
    """The largest power of the base that is not greater; 0 below 1."""
    power = F.pow(F.lit(base), F.floor(F.ln(value) / math.log(base) + 1e-9))
    return F.when(value < 1, 0).otherwise(power).cast("long")


def _visits_of(history: HistoryFrames) -> DataFrame:
    return visits(history.events())


FACTS = ProductFacts(
    line=Line.WAITINGROOM,
    prefix="queue",
    stream=lambda prefix, queue: f"{prefix}:{queue}:events",
    states=(State("positions", "zset"), State("admitted", "zset")),
    state_key=lambda _, queue, state: getattr(RoomKeys(queue), state),
    ended_states=(),
    open_ids=open_ids,
    stream_limit=lambda _, queue: (RoomKeys(queue).meta, "events_cap"),
    tables=(
        ProductTable(VISITS, lambda history: _visits_of(history)),
        ProductTable(SESSIONS, lambda history: sessions(history.events())),
        ProductTable(FUNNEL, lambda history: funnel(history.events(), _visits_of(history))),
        ProductTable(ABANDONMENT, lambda history: abandonment(_visits_of(history))),
        ProductTable(ETA_CALIBRATION, lambda history: eta_calibration(_visits_of(history))),
        ProductTable(FAIRNESS, lambda history: fairness(_visits_of(history))),
    ),
)
