"""Wait models of the waiting rooms: parameters of their estimates, learnt from history."""

import datetime as dt
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from waystation.core.events import Line
from waystation.pipeline.history import History
from waystation.pipeline.products.waitingroom import sessions, spreads, visits
from waystation.pipeline.sources.store import Store
from waystation.waitingroom.estimates.model import FEWEST_VISITS, STALE_MS, Model, Point, within
from waystation.waitingroom.redis.keys import RoomKeys

WINDOW = dt.timedelta(hours=24)


def write_models(history: History, store: Store, now: dt.datetime) -> int:
    """Write a model for every room with enough recent visits; returns how many."""
    since = now - WINDOW
    ours = F.col("line") == Line.WAITINGROOM.value
    recent = history.events().where(ours & (F.col("at") > F.lit(since)))
    if recent.isEmpty():
        return 0
    written = 0
    for queue, model in models(recent, now):
        write(store, queue, model, now)
        written += 1
    return written


def models(events: DataFrame, now: dt.datetime) -> Iterator[tuple[str, Model]]:
    """The model of each room, within hard bounds."""
    visited = visits(events)
    called = visited.where(F.col("called_at").isNotNull())
    missed = F.count_if(F.col("outcome") == "missed")
    came = F.count_if(F.col("claimed_at").isNotNull())
    shows = called.groupBy("queue").agg(
        (missed / F.nullif(missed + came, F.lit(0))).alias("noshow")
    )
    held = sessions(events).groupBy("queue").agg(F.mean("held_s").alias("s_mean"))
    every = spreads(visited).join(shows, "queue", "left").join(held, "queue", "left")
    rows = sorted(every.collect(), key=lambda row: (row["queue"], row["ahead_from"] or 0))
    for queue, theirs in groupby(rows, key=lambda row: row["queue"]):
        overall, *lines = theirs
        if overall["visits"] >= FEWEST_VISITS:
            yield queue, _model(overall, lines, now)


def write(store: Store, queue: str, model: Model, now: dt.datetime) -> None:
    """Write a model; it expires when it is not renewed."""
    key = RoomKeys(queue).model
    pipe = store.at(key).pipeline(transaction=True)
    pipe.delete(key)
    for field, value in model.to_fields(trained_at=int(now.timestamp())).items():
        pipe.hset(key, field, value)
    pipe.pexpire(key, STALE_MS)
    pipe.execute()


def _model(overall: Any, lines: Iterable[Any], now: dt.datetime) -> Model:
    s_mean, no_show = overall["s_mean"], overall["noshow"]
    whole_room = _point(overall)
    points = (
        msgspec.structs.replace(
            _point(line) if line["visits"] >= FEWEST_VISITS else whole_room, people=line["people"]
        )
        for line in lines
    )
    return Model(
        theta=within("theta", overall["theta"]),
        session_mean_s=None if s_mean is None else within("s_mean", s_mean),
        no_show=0.0 if no_show is None else within("noshow", no_show),
        f10=whole_room.f10,
        f50=whole_room.f50,
        f90=whole_room.f90,
        points=tuple(points),
        version=now.strftime("%Y%m%dT%H%M%SZ"),
    )


def _point(row: Any) -> Point:
    return Point(row["people"], *(within(name, row[name]) for name in ("f10", "f50", "f90")))
