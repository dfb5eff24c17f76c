"""The waiting room: visits, sessions, who leaves and why, and how honest the estimates were."""

import math
from typing import TYPE_CHECKING

from waystation.core.events import Line
from waystation.pipeline.products.facts import LineAnswer, LineFacts, State
from waystation.pipeline.products.room_places import seen
from waystation.pipeline.tables import INSTANT, INT, LONG, REAL, TEXT, Column, Layer, Table
from waystation.waitingroom.estimates.model import STEP
from waystation.waitingroom.redis.keys import RoomKeys

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

    from waystation.pipeline.history import History

_ROOM = Column("queue", TEXT, "the room")
_LANE = Column("lane", INT, "0 normal, 1 elevated, 2 VIP, 3 premium")

VISITS = Table(
    name="visits",
    layer=Layer.SILVER,
    meaning="one row for each place in line, from joining to what came of it",
    key=("queue", "visitor"),
    columns=(
        _ROOM,
        Column("visitor", TEXT, "the id of the place"),
        _LANE,
        Column("network", TEXT, "a digest of where they came from"),
        Column("joined_at", INSTANT, "when they got in line"),
        Column("seq", LONG, "their place in the order"),
        Column("ahead", LONG, "people who came first then: of the lane, or of higher ones"),
        Column("rate", REAL, "people of the lane called in per second then"),
        Column("model", TEXT, "the version of the model they were told a wait by"),
        Column("called_at", INSTANT, "when their turn first came"),
        Column("call_order", LONG, "the order in which the calls were told"),
        Column("claimed_at", INSTANT, "when they came in"),
        Column("gone_at", INSTANT, "when they left or were taken for gone"),
        Column("ended_at", INSTANT, "when their session ended"),
        Column("recovered", LONG, "turns they took back"),
        Column("waited_s", REAL, "from joining to being called or gone"),
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
        Column("ended_at", INSTANT, "when it ended; null while it goes on"),
        Column("held_s", REAL, "how long the seat was held"),
        Column("views", LONG, "pages seen, where that is told"),
        Column("ending", TEXT, "completed, cancelled or expired"),
    ),
)

FUNNEL = Table(
    name="funnel",
    layer=Layer.GOLD,
    meaning="one row for each room, lane and minute: how many took which step",
    key=("queue", "lane", "minute"),
    columns=(
        _ROOM,
        _LANE,
        Column("minute", INSTANT, "the minute it began"),
        Column("arrived", LONG, "got in line"),
        Column("refused", LONG, "could not be let into the line"),
        Column("called", LONG, "had their turn"),
        Column("claimed", LONG, "came in"),
        Column("missed", LONG, "did not come in time"),
        Column("left", LONG, "went away by choice"),
        Column("expired", LONG, "fell silent"),
        Column("completed", LONG, "were done"),
    ),
)

ABANDONMENT = Table(
    name="abandonment",
    layer=Layer.GOLD,
    meaning="who leaves: the hazard by the people ahead and the wait that was told",
    key=("queue", "ahead_from", "told_from_s"),
    columns=(
        _ROOM,
        Column("ahead_from", LONG, "people ahead on joining, from this power of four on"),
        Column("told_from_s", LONG, "the wait told, from this power of two in seconds on"),
        Column("people", LONG, "who joined so"),
        Column("gone", LONG, "of them, left or fell silent before their turn"),
        Column("watched_s", REAL, "all their waiting"),
        Column("hazard", REAL, "the share that leaves each second"),
    ),
)

ETA_CALIBRATION = Table(
    name="eta_calibration",
    layer=Layer.GOLD,
    meaning="how the formula has to be stretched to fit the waits, by the people ahead",
    key=("queue", "ahead_from"),
    columns=(
        _ROOM,
        Column("ahead_from", LONG, "people ahead on joining, from this power of four on"),
        Column("people", LONG, "where half of them stood: the people ahead, and they themselves"),
        Column("visits", LONG, "visits it was learnt from"),
        Column("f10", REAL, "a tenth waited no longer than this times the formula"),
        Column("f50", REAL, "half waited no longer"),
        Column("f90", REAL, "nine tenths waited no longer"),
        Column("error", REAL, "how far off the formula was on average, as a share of the wait"),
        Column("theta", REAL, "the share of the room's line that leaves each second"),
    ),
)

FAIRNESS = Table(
    name="fairness",
    layer=Layer.GOLD,
    meaning="one row for each room, lane and hour: was anybody overtaken, and who got which share",
    key=("queue", "lane", "hour"),
    columns=(
        _ROOM,
        _LANE,
        Column("hour", INSTANT, "the hour it began"),
        Column("called", LONG, "people called in"),
        Column("overtaken", LONG, "of them, called after somebody of the lane who came later"),
        Column("share", REAL, "the lane's share of the room's turns"),
        Column("wait_mean_s", REAL, "how long they waited on average"),
        Column("wait_p90_s", REAL, "nine tenths waited no longer"),
    ),
)


def visits(events: "DataFrame") -> "DataFrame":
    """Fold each visitor's events into the one row that outlives them."""
    from pyspark.sql import functions as F

    ours = _ours(events).where(F.col("subject").isNotNull())
    joined = F.col("event").isin("waiting", "delayed")
    gone = (F.col("event") == "left") | (
        (F.col("event") == "expired") & (_field("reason") == "silent")
    )
    folded = ours.groupBy("queue", F.col("subject").alias("visitor")).agg(
        F.max(F.when(joined, _field("lane").cast("int"))).alias("lane"),
        F.max(F.when(joined, _field("network"))).alias("network"),
        _first(joined).alias("joined_at"),
        # Lots may have changed the order between joining and being called.
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


def sessions(events: "DataFrame") -> "DataFrame":
    """How long each seat was held, and how it was given up."""
    from pyspark.sql import functions as F

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


def funnel(events: "DataFrame", visits: "DataFrame") -> "DataFrame":
    """How many took which step, minute by minute."""
    from pyspark.sql import functions as F

    lanes = visits.select("queue", F.col("visitor").alias("subject"), F.col("lane").alias("_lane"))
    told = {
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
        .agg(*(F.count_if(which).alias(name) for name, which in told.items()))
        .select(*FUNNEL.names)
    )


def abandonment(visits: "DataFrame") -> "DataFrame":
    """Who leaves before their turn, by how long the line looked."""
    from pyspark.sql import functions as F

    told = (F.col("ahead") + 1) / F.col("rate")
    return (
        visits.where((F.col("rate") > 0) & F.col("waited_s").isNotNull())
        .withColumn("ahead_from", _power(F.col("ahead"), 4))
        .withColumn("told_from_s", _power(told, 2))
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


def eta_calibration(visits: "DataFrame") -> "DataFrame":
    """What the formula has to be multiplied by, by how many were ahead."""
    from pyspark.sql import functions as F

    return spreads(visits).where(F.col("ahead_from").isNotNull()).select(*ETA_CALIBRATION.names)


def spreads(visits: "DataFrame") -> "DataFrame":
    """The same, and once more for all visits of a room, in a row without `ahead_from`."""
    from pyspark.sql import functions as F

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


def hazards(visits: "DataFrame") -> "DataFrame":
    """The share of each room's line that leaves each second."""
    from pyspark.sql import functions as F

    gone = F.count_if(F.col("called_at").isNull() & F.col("gone_at").isNotNull())
    theta = F.least(F.lit(0.01), gone / F.nullif(F.sum("waited_s"), F.lit(0.0)))
    return visits.groupBy("queue").agg(F.coalesce(theta, F.lit(0.0)).alias("theta"))


def formula(visits: "DataFrame") -> "DataFrame":
    """Visits that came to their turn, with the wait by the formula and how the real one compares.

    W = ln(1 + θ·A / μ) / θ, as `waystation.waitingroom.estimates.model.closed_form` has it.
    """
    from pyspark.sql import functions as F

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


def fairness(visits: "DataFrame") -> "DataFrame":
    """Whether anybody was overtaken in the own lane, and the lanes' shares."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

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


def _ours(events: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as F

    return events.where(F.col("line") == Line.WAITINGROOM.value)


def _field(name: str) -> "Expression":
    from pyspark.sql import functions as F

    return F.col("fields")[name]


def _first(which: "Expression") -> "Expression":
    from pyspark.sql import functions as F

    return F.min(F.when(which, F.col("at")))


def _ends_a_session() -> "Expression":
    from pyspark.sql import functions as F

    by_time = (F.col("event") == "expired") & (_field("reason") == "session")
    return F.col("event").isin("completed", "cancelled") | by_time


def _seconds(since: "Expression", until: "Expression") -> "Expression":
    from pyspark.sql import functions as F

    return (F.unix_millis(until) - F.unix_millis(since)) / 1000


def _power(value: "Expression", base: int) -> "Expression":
    """The largest power of the base that is not above; 0 below 1."""
    from pyspark.sql import functions as F

    power = F.pow(F.lit(base), F.floor(F.ln(value) / math.log(base) + 1e-9))
    return F.when(value < 1, 0).otherwise(power).cast("long")


def _visits_of(history: "History") -> "DataFrame":
    return visits(history.events())


FACTS = LineFacts(
    line=Line.WAITINGROOM,
    prefix="queue",
    stream=lambda prefix, queue: f"{prefix}:{queue}:events",
    states=(State("positions", "zset"), State("admitted", "zset")),
    state_key=lambda _, queue, state: getattr(RoomKeys(queue), state),
    ended_states=(),
    seen=seen,
    room=lambda _, queue: (RoomKeys(queue).meta, "events_cap"),
    answers=(
        LineAnswer(VISITS, lambda history, _: _visits_of(history)),
        LineAnswer(SESSIONS, lambda history, _: sessions(history.events())),
        LineAnswer(FUNNEL, lambda history, _: funnel(history.events(), _visits_of(history))),
        LineAnswer(ABANDONMENT, lambda history, _: abandonment(_visits_of(history))),
        LineAnswer(ETA_CALIBRATION, lambda history, _: eta_calibration(_visits_of(history))),
        LineAnswer(FAIRNESS, lambda history, _: fairness(_visits_of(history))),
    ),
)
