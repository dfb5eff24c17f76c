"""What history teaches the waiting rooms: the model that their estimates are made by."""

import datetime as dt
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from waystation.core.events import Line
from waystation.pipeline.history import History
from waystation.pipeline.lines.waitingroom import formula, hazards, sessions, visits
from waystation.pipeline.sources.store import Store
from waystation.queues.waitingroom.keys import RoomKeys
from waystation.queues.waitingroom.model import BOUNDS, STALE_MS, Model

FEWEST_VISITS = 50
"""Fewer say too little about a room."""
LATELY = dt.timedelta(hours=24)


def advise(history: History, store: Store, now: dt.datetime) -> int:
    """Teach every room with enough visits of late; how many there were."""
    since = now - LATELY
    ours = F.col("line") == Line.WAITINGROOM.value
    lately = history.events().where(ours & (F.col("at") > F.lit(since)))
    if lately.isEmpty():
        return 0
    taught = 0
    for queue, model in models(lately, now):
        write(store, queue, model, now)
        taught += 1
    return taught


def models(events: DataFrame, now: dt.datetime) -> Iterator[tuple[str, Model]]:
    """What each room's visits teach, within hard bounds."""
    visited = visits(events)
    spread = (
        formula(visited)
        .groupBy("queue")
        .agg(
            F.count("*").alias("visits"),
            *(F.percentile("ratio", q / 100).alias(f"f{q}") for q in (10, 50, 90)),
        )
        .where(F.col("visits") >= FEWEST_VISITS)
    )
    called = visited.where(F.col("called_at").isNotNull())
    missed = F.count_if(F.col("outcome") == "missed")
    came = F.count_if(F.col("claimed_at").isNotNull())
    shows = called.groupBy("queue").agg(
        (missed / F.nullif(missed + came, F.lit(0))).alias("noshow")
    )
    held = sessions(events).groupBy("queue").agg(F.mean("held_s").alias("s_mean"))
    joined = spread.join(hazards(visited), "queue").join(shows, "queue", "left")
    for row in joined.join(held, "queue", "left").collect():
        yield row["queue"], _model(row, now)


def write(store: Store, queue: str, model: Model, now: dt.datetime) -> None:
    """Put a model where its room reads it; it is forgotten when nobody renews it."""
    key = RoomKeys(queue).model
    pipe = store.at(key).pipeline(transaction=True)
    for field, value in model.to_fields(trained_at=int(now.timestamp())).items():
        pipe.hset(key, field, value)
    pipe.pexpire(key, STALE_MS)
    pipe.execute()


def _model(row: Any, now: dt.datetime) -> Model:
    def within(name: str, value: float | None, otherwise: float) -> float:
        least, most = BOUNDS[name]
        return otherwise if value is None else min(most, max(least, value))

    return Model(
        theta=within("theta", row["theta"], 0.0),
        session_mean_s=None if row["s_mean"] is None else within("s_mean", row["s_mean"], 1.0),
        no_show=within("noshow", row["noshow"], 0.0),
        f10=within("f10", row["f10"], 0.75),
        f50=within("f50", row["f50"], 1.0),
        f90=within("f90", row["f90"], 1.5),
        version=now.strftime("%Y%m%dT%H%M%SZ"),
    )
