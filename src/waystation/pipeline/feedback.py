"""What the pipeline tells the queues: recommendations, and the wait models of the waiting rooms.

Each is small, is read by the queue, and expires when it is not renewed.
"""

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any, cast

import msgspec

from waystation.bullmq.redis.prefixes import unless_default
from waystation.core.errors import InvalidOption
from waystation.core.events import Product
from waystation.core.line.forecasts import (
    MOST_LABELS,
    DesiredWorkers,
    Drain,
    FailureLabel,
    FailureLabels,
    Recommendation,
    Slo,
    field_of,
    key_of,
    written,
)
from waystation.core.store import faults
from waystation.pipeline.gold.cells import failure_label
from waystation.pipeline.gold.forecast import SLOT_S, Slot, forecast
from waystation.pipeline.histograms import percentile, summed
from waystation.pipeline.history import History
from waystation.pipeline.products.waitingroom import SESSIONS, VISITS, spreads
from waystation.pipeline.refresh.stale_hours import Hours
from waystation.pipeline.silver.moves import OPEN_ATTEMPTS, OPEN_ITEMS
from waystation.pipeline.simulation.advice import WINDOW_S, Arrival, workers_wanted
from waystation.pipeline.sources.store import Store
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import pa, pc
from waystation.pipeline.storage.sessions import sized
from waystation.pipeline.storage.sql import Frame, query
from waystation.pipeline.tables import ATTEMPTS, CAPACITY, FAILURES, HOURLY, SLOTS, Table
from waystation.waitingroom.estimates.model import FEWEST_VISITS, STALE_MS, Model, Point, within
from waystation.waitingroom.redis.keys import RoomKeys

HOURS = 24
"""Hours of history that recommendations are computed from."""
FRESH_S = 15 * 60
"""Seconds that a recommendation is valid."""
LONGEST_LABEL = 120

_LEVELS = ("product", "queue", "hour", "completed", "failed", "wait_histogram", "run_histogram")
_LABELLED = (
    "product",
    "queue",
    "fingerprint",
    "signature",
    "attempts",
    "retry_helps",
    "kinds",
    "last_at",
)

_NEEDED = (
    "product",
    "queue",
    "hour",
    "workers_needed",
    "target_wait_ms",
    "busiest_per_s",
    "service_mean_ms",
)

QueueKey = tuple[str, str]
"""Product and queue."""


def write_recommendations(
    history: History, store: Store, now: dt.datetime, options: EventOptions
) -> int:
    """Compute recommendations and write them to the queues; returns how many."""
    pieces = [
        *_slo(history, now),
        *_drains(history, now),
        *_labels(history, now),
        *_workers(history, now),
    ]
    # What is not followed any more may still have had an event lately.
    return put(store, [each for each in pieces if options.knows(*each[0])], options)


def put(
    store: Store, pieces: Iterable[tuple[QueueKey, Recommendation]], options: EventOptions
) -> int:
    """Write recommendations, and return how many; writing the same again changes nothing."""
    many = 0
    for (product, queue), piece in pieces:
        prefix, name = options.place_of(product, queue)
        named = unless_default(prefix) if product == Product.BULLMQ.value else ""
        try:
            key = key_of(type(piece), name)
        except InvalidOption:
            # Another program's queue, with a name that nobody can ask ours about.
            continue
        many += 1
        pipe = store.at(key).pipeline(transaction=True)
        pipe.hset(key, field_of(product, named), written(piece).decode())
        pipe.pexpireat(key, piece.until)
        with faults.translated():
            pipe.execute()
    return many


def _slo(history: History, now: dt.datetime) -> Iterator[tuple[QueueKey, Recommendation]]:
    """Service levels of each queue, from the histograms of its hours."""
    since = now - dt.timedelta(hours=HOURS)
    rows = _read_since(history, HOURLY, _LEVELS, since)
    found: dict[QueueKey, list[dict[str, Any]]] = {}
    for row in _since(rows, "hour", since, by="hour"):
        found.setdefault((row["product"], row["queue"]), []).append(row)
    for place, hours in found.items():
        completed, failed = (sum(row[name] for row in hours) for name in ("completed", "failed"))
        percentiles = {
            f"{of}_p{percent}_ms": percentile(times, percent / 100)
            for of in ("wait", "run")
            for times in [summed(row[f"{of}_histogram"] for row in hours)]
            for percent in (50, 95, 99)
        }
        failed_part = failed / (completed + failed) if completed + failed else 0.0
        yield place, Slo(hours=HOURS, failed_part=failed_part, **percentiles, **_lifetime(now))


def _drains(history: History, now: dt.datetime) -> Iterator[tuple[QueueKey, Recommendation]]:
    for place, series in backlogs(history, now).items():
        found = forecast(series, seconds=SLOT_S)
        if found is not None:
            yield (
                place,
                Drain(
                    waiting=found.waiting,
                    low_s=round(found.low_s, 3),
                    likely_s=round(found.likely_s, 3),
                    high_s=round(found.high_s, 3),
                    band=round(found.band.coverage, 3),
                    **_lifetime(now),
                ),
            )


def backlogs(history: History, now: dt.datetime) -> Mapping[QueueKey, list[Slot]]:
    """Arrivals and ends in the last hours, slot by slot up to now, of queues with open work.

    What was open before counts as come in the first slot, so that a series ends with what is open.
    """
    there = open_work(history.root)
    if not there:
        return {}
    first = (now - dt.timedelta(hours=HOURS)).replace(minute=0, second=0, microsecond=0)
    last = first + dt.timedelta(hours=HOURS + 1)
    counted = delta.read_arrow(history.root, SLOTS, SLOTS.names, within=("hour", first, last))
    counted = counted.filter((pc.field("hour") >= first) & (pc.field("hour") <= last))
    found: dict[QueueKey, dict[int, Slot]] = {}
    for row in counted.to_pylist():
        # Most queues have no backlog, and need no forecast.
        if (place := (row["product"], row["queue"])) in there:
            found.setdefault(place, {})[row["slot"]] = Slot(row["came"], row["ended"])
    return {place: _series(mine, there[place], now) for place, mine in found.items()}


def _series(mine: Mapping[int, Slot], open_now: int, now: dt.datetime) -> list[Slot]:
    """Slots without gaps, up to the last one that is over or has something in it."""
    until = max(int(now.timestamp()) // SLOT_S, max(mine) + 1)
    first, *others = [mine.get(slot, Slot(0, 0)) for slot in range(min(mine), until)]
    before = open_now - sum(each.came - each.ended for each in mine.values())
    return [Slot(first.came + before, first.ended), *others]


def _labels(history: History, now: dt.datetime) -> Iterator[tuple[QueueKey, Recommendation]]:
    since = now - dt.timedelta(hours=HOURS)
    rows = delta.read_arrow(history.root, FAILURES, _LABELLED)
    found: dict[QueueKey, list[FailureLabel]] = {}
    for row in _since(rows, "last_at", since, by="attempts"):
        mine = found.setdefault((row["product"], row["queue"]), [])
        if len(mine) < MOST_LABELS:
            said = failure_label(row)[:LONGEST_LABEL]
            mine.append(FailureLabel(row["fingerprint"], said, row["attempts"], row["retry_helps"]))
    for place, labels in found.items():
        yield place, FailureLabels(labels=tuple(labels), **_lifetime(now))


def _workers(history: History, now: dt.datetime) -> Iterator[tuple[QueueKey, Recommendation]]:
    """Workers for what comes as in the last half hour, and for what waits.

    Where nothing ran in it, those for the busier of the present hour and the one before.
    """
    since = now - dt.timedelta(hours=2)
    rows = _read_since(history, CAPACITY, _NEEDED, since)
    busiest: dict[QueueKey, dict[str, Any]] = {}
    for row in _since(rows, "hour", since, by="hour"):
        place = (row["product"], row["queue"])
        most = busiest.get(place, row)["workers_needed"] or 0
        if row["workers_needed"] is not None and row["workers_needed"] >= most:
            busiest[place] = row
    hours = _read_since(history, HOURLY, ("product", "queue", "hour", "wait_p95_ms"), since)
    waited = {
        (row["product"], row["queue"], row["hour"]): row["wait_p95_ms"]
        for row in _since(hours, "hour", since, by="hour")
    }
    lately = recent_work(history.root, now) if busiest else {}
    for place, row in busiest.items():
        work = lately.get(place, RecentWork())
        wanted = workers_wanted(
            work.arrivals,
            work.waiting,
            running=len(work.running),
            target_s=row["target_wait_ms"] / 1000,
        )
        yield (
            place,
            DesiredWorkers(
                workers=row["workers_needed"] if wanted is None else wanted,
                target_wait_ms=row["target_wait_ms"],
                busiest_minute=round(row["busiest_per_s"] * 60),
                run_mean_ms=row["service_mean_ms"],
                wait_p95_ms=waited.get((*place, row["hour"])),
                **_lifetime(now),
            ),
        )


def _read_since(history: History, table: Table, columns: Sequence[str], since: dt.datetime) -> Any:
    """Columns of a table by the hour; files with no later hour are not read."""
    return delta.read_arrow(history.root, table, columns, within=("hour", since, None))


def _since(rows: Any, column: str, since: dt.datetime, *, by: str) -> list[dict[str, Any]]:
    """Recent rows, the largest first."""
    late = rows.filter(pc.greater(rows[column], pa.scalar(since, rows[column].type)))
    return late.sort_by([(by, "descending")]).to_pylist()


def _lifetime(now: dt.datetime) -> dict[str, int]:
    made = int(now.timestamp() * 1000)
    return {"made_at": made, "until": made + FRESH_S * 1000}


_WHOSE = ("product", "queue")


class RecentWork(msgspec.Struct, frozen=True):
    """The recent work of one queue."""

    arrivals: list[Arrival] = []
    waiting: list[float] = []
    """The ages of the jobs that nobody has claimed yet, in seconds."""
    running: list[float] = []
    """The ages of the jobs that run."""


def recent_work(root: str, now: dt.datetime) -> dict[tuple[str, str], RecentWork]:
    """The recent work of every queue, by product and queue."""
    found: dict[tuple[str, str], RecentWork] = defaultdict(RecentWork)
    for row in _claimed(root, now - dt.timedelta(seconds=WINDOW_S), now):
        run_s = None if row["run_ms"] is None else row["run_ms"] / 1000
        mine, age = found[row["product"], row["queue"]], _age(row["ready_at"], now)
        mine.arrivals.append(Arrival(age, run_s))
        if run_s is None:
            mine.running.append(age)
    for row in _open(root, "waiting", columns=(*_WHOSE, "last_recorded_at")).to_pylist():
        # The last that was told of a job that waits is that it does.
        mine, age = found[row["product"], row["queue"]], _age(row["last_recorded_at"], now)
        mine.waiting.append(age)
        if age < WINDOW_S:
            mine.arrivals.append(Arrival(age, None))
    return found


def open_work(root: str) -> dict[tuple[str, str], int]:
    """How many jobs wait or run, by product and queue; delayed ones do neither."""
    rows = _open(root, "waiting", "active", columns=_WHOSE)
    return Counter(zip(*(rows[name].to_pylist() for name in _WHOSE), strict=True))


def _claimed(root: str, since: dt.datetime, now: dt.datetime) -> list[dict[str, Any]]:
    """Attempts that became ready since an instant."""
    columns, where = (*_WHOSE, "ready_at", "run_ms"), pc.field("ready_at") > since
    days = Hours((since, now)).days
    kept = delta.read_arrow(
        root, ATTEMPTS, columns, where, by=(), days=days, within=("started_at", since, None)
    )
    running = delta.read_arrow(root, OPEN_ATTEMPTS, columns, where, by=())
    return pa.concat_tables([kept, running]).to_pylist()


def _open(root: str, *states: str, columns: tuple[str, ...]) -> Any:
    among = pc.field("state").isin(pa.array(states))
    return delta.read_arrow(root, OPEN_ITEMS, columns, among, by=("state",))


def _age(instant: dt.datetime, now: dt.datetime) -> float:
    return max(0.0, (now - instant).total_seconds())


MODEL_WINDOW = dt.timedelta(hours=24)
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
    since = now - MODEL_WINDOW
    recent = delta.count(VISITS.path(history.root), within=("joined_at", since, None))
    if not recent:
        return 0
    with sized(history.spark, recent):
        visits = history.rows_since(VISITS, "joined_at", since, _OF_A_VISIT)
        sessions = history.rows_since(SESSIONS, "started_at", since, _OF_A_SESSION)
        found = list(wait_models(visits, sessions, now))
    written = 0
    for queue, model in found:
        # No room of ours can have the name that another program's entries may have.
        with suppress(InvalidOption):
            write_model(store, queue, model, now)
            written += 1
    return written


def wait_models(visits: Frame, sessions: Frame, now: dt.datetime) -> Iterator[tuple[str, Model]]:
    """The model of each room, within hard bounds."""
    every = query(_MODELS, spreads=spreads(visits), visits=visits, sessions=sessions)
    found: list[dict[str, Any]] = cast(Any, every).toArrow().to_pylist()
    rows = sorted(found, key=lambda row: (row["queue"], row["ahead_from"] or 0))
    for queue, theirs in groupby(rows, key=lambda row: row["queue"]):
        overall, *lines = theirs
        if overall["visits"] >= FEWEST_VISITS:
            yield queue, _model(overall, lines, now)


def write_model(store: Store, queue: str, model: Model, now: dt.datetime) -> None:
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
