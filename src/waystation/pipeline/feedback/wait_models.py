"""Wait models of the waiting rooms: parameters of their estimates, learnt from history."""

import datetime as dt
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import groupby
from typing import Any, cast

import msgspec

from waystation.core.errors import InvalidOption
from waystation.core.store import faults
from waystation.pipeline.history import History
from waystation.pipeline.products.waitingroom import SESSIONS, VISITS, spreads
from waystation.pipeline.sources.store import Store
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.sessions import sized
from waystation.pipeline.storage.sql import Frame, query
from waystation.waitingroom.estimates.model import FEWEST_VISITS, STALE_MS, Model, Point, within
from waystation.waitingroom.redis.keys import RoomKeys

WINDOW = dt.timedelta(hours=24)
_OF_A_VISIT = (
    *("queue", "joined_at", "ahead", "rate", "called_at", "claimed_at", "gone_at"),
    *("waited_s", "outcome"),
)
_OF_A_SESSION = ("queue", "started_at", "held_s")

_MODELS = """
with shows as (
    select queue,
           count_if(outcome = 'missed') as missed,
           count_if(claimed_at is not null) as came
    from {visits}
    where called_at is not null
    group by queue
), held as (
    select queue, avg(held_s) as s_mean from {sessions} group by queue
)
select spreads.*, s_mean, missed / nullif(missed + came, 0) as noshow
from {spreads} as spreads
left join shows on spreads.queue = shows.queue
left join held on spreads.queue = held.queue
"""


def write_models(history: History, store: Store, now: dt.datetime) -> int:
    """Write a model for every room with enough recent visits; returns how many."""
    since = now - WINDOW
    recent = delta.count(VISITS.path(history.root), within=("joined_at", since, None))
    if not recent:
        return 0
    with sized(history.spark, recent):
        visits = history.rows_since(VISITS, "joined_at", since, _OF_A_VISIT)
        sessions = history.rows_since(SESSIONS, "started_at", since, _OF_A_SESSION)
        found = list(models(visits, sessions, now))
    written = 0
    for queue, model in found:
        # No room of ours can have the name that another program's entries may have.
        with suppress(InvalidOption):
            write(store, queue, model, now)
            written += 1
    return written


def models(visits: Frame, sessions: Frame, now: dt.datetime) -> Iterator[tuple[str, Model]]:
    """The model of each room, within hard bounds."""
    every = query(_MODELS, spreads=spreads(visits), visits=visits, sessions=sessions)
    found: list[dict[str, Any]] = cast(Any, every).toArrow().to_pylist()
    rows = sorted(found, key=lambda row: (row["queue"], row["ahead_from"] or 0))
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
    with faults.translated():
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
