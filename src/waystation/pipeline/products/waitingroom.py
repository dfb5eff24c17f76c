"""Waiting room: visits, sessions, abandonment, accuracy of wait estimates, fairness."""

import math

from waystation.core.events import Product
from waystation.pipeline.product_keys import streams_of
from waystation.pipeline.products import room_places
from waystation.pipeline.products.facts import (
    CountedEvents,
    FoldedTable,
    ProductFacts,
    Projection,
    State,
)
from waystation.pipeline.products.room_places import (
    PLACES,
    REMOVED,
    ROOM_EVENTS,
    open_ids,
    still_open,
)
from waystation.pipeline.storage.sql import Frame, query, select
from waystation.pipeline.tables import (
    DAY,
    INSTANT,
    INT,
    LONG,
    REAL,
    TEXT,
    Column,
    Layer,
    Table,
)
from waystation.waitingroom.estimates.model import STEP
from waystation.waitingroom.redis.keys import RoomKeys

_ROOM = Column("queue", TEXT, "the room")
_LANE = Column("lane", INT, "0 normal, 1 elevated, 2 VIP, 3 premium")
_DATE = Column("date", DAY, "day on which the visitor joined, in UTC")

VISITS = Table(
    name="visits",
    layer=Layer.SILVER,
    meaning="one row for each place in a waiting room, from joining to its outcome",
    key=("queue", "visitor"),
    partitions=("date",),
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
        Column("gone_at", INSTANT, "when the visitor left, expired or was removed"),
        Column("ended_at", INSTANT, "when the session ended"),
        Column("recovered", LONG, "missed admissions that were recovered"),
        Column("waited_s", REAL, "seconds from joining to admission or to the end of the place"),
        Column(
            "outcome",
            TEXT,
            "completed, inside, removed, left, expired, missed, called or waiting",
        ),
        _DATE,
    ),
)

SESSIONS = Table(
    name="sessions",
    layer=Layer.SILVER,
    meaning="one row for each session: how long a seat was held",
    key=("queue", "session"),
    partitions=("date",),
    columns=(
        _ROOM,
        Column("session", TEXT, "its id"),
        _LANE,
        Column("started_at", INSTANT, "when it began"),
        Column("ended_at", INSTANT, "when it ended; null while it is active"),
        Column("held_s", REAL, "seconds that the seat was held"),
        Column("views", LONG, "page views, where the event has them"),
        Column("ending", TEXT, "completed, cancelled or expired"),
        _DATE,
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

_ABANDONED = (
    _ROOM,
    Column("ahead_from", LONG, "people ahead on joining: this power of four or more"),
    Column("estimate_from_s", LONG, "estimated wait in seconds: this power of two or more"),
    Column("people", LONG, "visitors that joined so"),
    Column("gone", LONG, "of them, left or expired before admission"),
    Column("watched_s", REAL, "seconds that they waited, in all"),
)

ABANDONMENT_DAYS = Table(
    name="abandonment_days",
    layer=Layer.SILVER,
    meaning="visitors that left, by people ahead and estimated wait on joining, and by the day; "
    "which `abandonment` is added up from",
    key=("queue", "ahead_from", "estimate_from_s", "date"),
    partitions=("date",),
    columns=(*_ABANDONED, _DATE),
)

ABANDONMENT = Table(
    name="abandonment",
    layer=Layer.GOLD,
    meaning="rate of leaving, by people ahead and estimated wait on joining",
    key=("queue", "ahead_from", "estimate_from_s"),
    columns=(*_ABANDONED, Column("hazard", REAL, "share that leaves per second")),
)

ETA_CALIBRATION = Table(
    name="eta_calibration",
    layer=Layer.GOLD,
    meaning="factors between the formula's wait and the real one, by people ahead, in a room's "
    "last four weeks of visits",
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
        Column("seq_most", LONG, "last position in the order of joining that was admitted"),
    ),
)


_GONE_AT = "coalesce(removed_at, case when times_left > 0 then left_at else silent_at end)"
_VISIT = Projection(
    VISITS,
    (
        *("queue", "job_id as visitor", "lane", "network", "joined_at"),
        "coalesce(seq_called, seq_joined) as seq",
        *("ahead", "rate", "model", "called_at", "unix_micros(called_at) as call_order"),
        *("claimed_at", f"{_GONE_AT} as gone_at", "ended_at", "recovered"),
        f"(unix_millis(coalesce(called_at, {_GONE_AT})) - unix_millis(joined_at)) / 1000e0"
        " as waited_s",
        f"""case when ended_at is not null then 'completed'
                 when claimed_at is not null then 'inside'
                 when removed_at is not null then '{REMOVED}'
                 when times_left > 0 then 'left'
                 when {_GONE_AT} is not null then 'expired'
                 when times_missed > 0 then 'missed'
                 when called_at is not null then 'called'
                 else 'waiting' end as outcome""",
        "`date`",
    ),
    "joined_at is not null",
)
_SESSION = Projection(
    SESSIONS,
    (
        *("queue", "job_id as session", "session_lane as lane", "claimed_at as started_at"),
        "ended_at",
        "(unix_millis(ended_at) - unix_millis(claimed_at)) / 1000e0 as held_s",
        *("views", "ending", "`date`"),
    ),
    "claimed_at is not null",
)


def power_of(value: str, base: int) -> str:
    """SQL: the largest power of the base that is not greater; 0 below 1."""
    exponent = f"floor(ln({value}) / {math.log(base)!r}e0 + 1e-9)"
    return f"case when {value} < 1 then 0 else cast(pow({base}e0, {exponent}) as bigint) end"


VISITED = (
    f"{_GONE_AT} as gone_at",
    "unix_millis(coalesce(called_at, gone_at)) - unix_millis(joined_at) as waited_ms",
    f"coalesce(ended_at, claimed_at) is null and removed_at is not null as was_{REMOVED}",
)
"""Columns of a place that tell how its visit went, as SQL."""

CALIBRATED_DAYS = 28
"""Days up to the last one of a room whose visits its estimates are compared with."""

_LATELY = f"""
select * from (select *, max(`date`) over (partition by queue) as last_day from {{visits}})
where `date` > date_sub(last_day, {CALIBRATED_DAYS})
"""

# W = ln(1 + θ·A / μ) / θ, as `waystation.waitingroom.estimates.model.closed_form` has it.
_FORMULA = f"""
with rooms as (
    select queue,
           count_if(called_at is null and gone_at is not null
                    and outcome <> '{REMOVED}') as gone,
           sum(waited_s) as waited
    from {{visits}}
    group by queue
), hazards as (
    select queue,
           coalesce(least(0.01e0, case when waited <> 0 then gone / waited end), 0e0) as theta
    from rooms
), called as (
    select visits.*, theta, theta * (ahead + 1) / rate as share
    from {{visits}} as visits join hazards on visits.queue = hazards.queue
    where called_at is not null and rate > 0 and ahead > 0
), guessed as (
    select *,
           case when share < 1e-9 then (ahead + 1) / rate else log1p(share) / theta end as formula_s
    from called
)
select *, waited_s / formula_s as ratio
from guessed
where waited_s / formula_s > 0
"""

_SPREADS = f"""
with grouped as (
    select queue, ahead, ratio, theta, {power_of("ahead", STEP)} as ahead_from from {{formula}}
)
select queue, ahead_from,
       cast(floor(percentile(ahead, 0.5)) + 1 as bigint) as people,
       count(*) as visits,
       percentile(ratio, 0.1) as f10,
       percentile(ratio, 0.5) as f50,
       percentile(ratio, 0.9) as f90,
       avg(abs(1 / ratio - 1)) as error,
       max(theta) as theta
from grouped
group by grouping sets ((queue), (queue, ahead_from))
"""

# Of the hours before, only the last position that was admitted is needed.
_FAIRNESS = """
with most as (
    select queue, lane, max(seq_most) as seq_most from {before} group by queue, lane
), called as (
    select visits.queue, visits.lane, seq, waited_s, date_trunc('hour', called_at) as `hour`,
           seq_most as seq_of_hours_before,
           max(seq) over (partition by visits.queue, visits.lane order by call_order
                          range between unbounded preceding and 1 preceding) as seq_before
    from {visits} as visits
    left join most on visits.queue = most.queue and visits.lane is not distinct from most.lane
    where called_at is not null
), hourly as (
    select queue, lane, `hour`,
           count(*) as called,
           count_if(seq_before > seq or seq_of_hours_before > seq) as overtaken,
           avg(waited_s) as wait_mean_s,
           percentile(waited_s, 0.9) as wait_p90_s,
           coalesce(max(seq), 0) as seq_most
    from called
    group by queue, lane, `hour`
)
select queue, lane, `hour`, called, overtaken,
       called / sum(called) over (partition by queue, `hour`) as share,
       wait_mean_s, wait_p90_s, seq_most
from hourly
union all
select queue, lane, `hour`, called, overtaken, share, wait_mean_s, wait_p90_s, seq_most
from {before}
"""


def visits(places: Frame) -> Frame:
    """One row for each visit."""
    return select(places, *_VISIT.columns, where=_VISIT.where)


def sessions(places: Frame) -> Frame:
    """One row for each session."""
    return select(places, *_SESSION.columns, where=_SESSION.where)


def eta_calibration(visits: Frame) -> Frame:
    """One row for each group of the last visits of a room, by people ahead."""
    lately = query(_LATELY, visits=visits)
    return query("select * from {spreads} where ahead_from is not null", spreads=spreads(lately))


def spreads(visits: Frame) -> Frame:
    """The rows of `eta_calibration`, and one for all visits of a room without `ahead_from`."""
    return query(_SPREADS, formula=formula(visits))


def formula(visits: Frame) -> Frame:
    """Admitted visits with the wait by the formula, and the ratio of the real wait to it."""
    return query(_FORMULA, visits=visits)


def fairness(visits: Frame, before: Frame) -> Frame:
    """One row for each room, lane and hour, from its rows before an hour and later admissions."""
    return query(_FAIRNESS, visits=visits, before=before)


FACTS = ProductFacts(
    product=Product.WAITINGROOM,
    streams=streams_of(Product.WAITINGROOM),
    states=(State("positions", "zset"), State("admitted", "zset")),
    state_key=lambda _, queue, state: getattr(RoomKeys(queue), state),
    ended_states=(),
    open_ids=open_ids,
    still_open=still_open,
    stream_limit=lambda _, queue: (RoomKeys(queue).meta, "events_cap"),
    folded=(
        FoldedTable(
            PLACES,
            Product.WAITINGROOM,
            room_places.rows_from_events,
            room_places.merged,
            "joined_at",
            # Only the event with which a place begins names the network.
            continues="network is null",
            beside=(_VISIT, _SESSION),
            heard=CountedEvents(ROOM_EVENTS, room_places.heard, room_places.IN_LANES),
        ),
    ),
    tables=(VISITS, SESSIONS, ABANDONMENT_DAYS, FUNNEL, ABANDONMENT, ETA_CALIBRATION, FAIRNESS),
)
