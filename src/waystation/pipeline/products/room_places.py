"""Places in a waiting room: what the events of each add up to, and how the ledger counts it."""

from collections.abc import Iterator, Sequence
from typing import Any

from waystation.core.errors import InvalidOption
from waystation.core.events import Product
from waystation.pipeline.products.facts import members
from waystation.pipeline.storage.sql import Frame, grouped, select, texts
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
from waystation.waitingroom.redis.keys import RoomKeys

ENDS = ("left", "expired", "completed", "cancelled")
"""Events after which a visitor has no place any more."""
REMOVED = "removed"
"""The event after which an operator has taken the place away."""


PLACES = Table(
    name="places",
    layer=Layer.SILVER,
    meaning="one row for each place in a waiting room: what its events add up to, which visits, "
    "sessions and the ledger are computed from",
    key=("product", "queue", "job_id"),
    partitions=("date",),
    columns=(
        Column("product", TEXT, "product: waitingroom"),
        Column("queue", TEXT, "the room"),
        Column("job_id", TEXT, "id of the place"),
        Column("lane", INT, "lane that was joined"),
        Column("network", TEXT, "digest of the network address"),
        Column("joined_at", INSTANT, "when the visitor joined; null when that event is missing"),
        Column("seq_joined", LONG, "position in the order of joining"),
        Column("ahead", LONG, "people ahead on joining"),
        Column("rate", REAL, "people of the lane admitted per second on joining"),
        Column("model", TEXT, "version of the model that estimated the wait"),
        Column("called_at", INSTANT, "first admission"),
        Column("seq_called", LONG, "position in the order of joining at that admission"),
        Column("claimed_at", INSTANT, "when the visitor first entered"),
        Column("left_at", INSTANT, "when the visitor last left"),
        Column("removed_at", INSTANT, "when an operator last removed the visitor"),
        Column("silent_at", INSTANT, "when the place first expired without a heartbeat"),
        Column("ended_at", INSTANT, "when a session first ended"),
        Column("recovered", LONG, "missed admissions that were recovered"),
        Column("times_left", LONG, "times that the visitor left and did not take it back"),
        Column("times_missed", LONG, "admissions that were missed"),
        Column("session_lane", INT, "lane of the session"),
        Column("views", LONG, "page views, where the events have them"),
        Column("ending", TEXT, "completed, cancelled or expired"),
        Column("last_event", TEXT, "last event other than a refusal"),
        Column("last_recorded_at", INSTANT, "`recorded_at` of this event"),
        Column("last_seq", LONG, "its position among the entries of one millisecond"),
        Column("first_at", INSTANT, "first event"),
        Column("date", DAY, "day of `joined_at`, or of its first event, in UTC"),
    ),
)

ROOM_EVENTS = Table(
    name="room",
    layer=Layer.SILVER,
    meaning="new events of visitors",
    key=("queue", "event", "at", "lane"),
    columns=(
        Column("queue", TEXT, "the room"),
        Column("event", TEXT, "what has happened"),
        Column("at", INSTANT, "when"),
        Column("reason", TEXT, "why"),
        Column("lane", INT, "lane of the visit"),
    ),
)
"""New events of visitors, as they are counted by the minute."""

JOINS = "event in ('waiting', 'delayed')"
IS_SILENT = "(event = 'expired' and fields['reason'] = 'silent')"
_ENDS_A_SESSION = """(event in ('completed', 'cancelled')
        or (event = 'expired' and fields['reason'] = 'session'))"""
_TAKES_BACK = "(event = 'recovered' and coalesce(fields['reason'], '') = 'left')"

_WHO = ("product", "queue", "job_id")
# One row for each event.
_TOLD = (
    "product",
    "queue",
    "job_id",
    f"case when {JOINS} then try_cast(fields['lane'] as int) end as lane",
    "fields['network'] as network",
    f"case when {JOINS} then `at` end as joined_at",
    f"case when {JOINS} then try_cast(fields['seq'] as bigint) end as seq_joined",
    f"case when {JOINS} then try_cast(fields['ahead'] as bigint) end as ahead",
    f"case when {JOINS} then try_cast(fields['rate'] as double) end as rate",
    f"case when {JOINS} then fields['model'] end as model",
    "case when event = 'admitted' then `at` end as called_at",
    "case when event = 'admitted' then try_cast(fields['seq'] as bigint) end as seq_called",
    "case when event = 'claimed' then `at` end as claimed_at",
    "case when event = 'left' then `at` end as left_at",
    f"case when event = '{REMOVED}' then `at` end as removed_at",
    f"case when {IS_SILENT} then `at` end as silent_at",
    f"case when {_ENDS_A_SESSION} then `at` end as ended_at",
    f"case when event = 'recovered' and not {_TAKES_BACK} then 1 else 0 end as recovered",
    f"case when event = 'left' then 1 when {_TAKES_BACK} then -1 else 0 end as times_left",
    "case when event = 'missed' then 1 else 0 end as times_missed",
    "case when event = 'claimed' then try_cast(fields['lane'] as int) end as session_lane",
    "try_cast(fields['views'] as bigint) as views",
    f"case when {_ENDS_A_SESSION} then event end as ending",
    "case when event <> 'refused' then event end as last_event",
    "case when event <> 'refused' then recorded_at end as last_recorded_at",
    "case when event <> 'refused' then seq end as last_seq",
    "`at` as first_at",
)
_IS_OURS = f"product = '{Product.WAITINGROOM.value}' and job_id is not null"

# A lottery may have changed the order between joining and admission, so the first admission counts.
_TURN = "case when last_recorded_at is not null then struct(last_recorded_at, last_seq) end as turn"
_ADDED_UP = (
    "max(lane) as lane",
    "max(network) as network",
    "min(joined_at) as joined_at",
    "max(seq_joined) as seq_joined",
    "max(ahead) as ahead",
    "max(rate) as rate",
    "max(model) as model",
    "min(called_at) as called_at",
    "min_by(struct(cast(seq_called as bigint)), called_at) as first_call",
    "min(claimed_at) as claimed_at",
    "max(left_at) as left_at",
    "max(removed_at) as removed_at",
    "min(silent_at) as silent_at",
    "min(ended_at) as ended_at",
    "cast(sum(recovered) as bigint) as recovered",
    "cast(sum(times_left) as bigint) as times_left",
    "cast(sum(times_missed) as bigint) as times_missed",
    "max(session_lane) as session_lane",
    "max(views) as views",
    "max(ending) as ending",
    "max_by(last_event, turn) as last_event",
    "max(last_recorded_at) as last_recorded_at",
    "max_by(last_seq, turn) as last_seq",
    "min(first_at) as first_at",
)
_MERGED = (
    "*",
    "first_call.col1 as seq_called",
    "to_date(coalesce(joined_at, first_at)) as `date`",
)

_HEARD = """struct(queue, event, `at`, fields['reason'] as reason,
    try_cast(fields['lane'] as int) as lane) as heard"""
IN_LANES = """transform(heard, each -> struct(each.queue, each.event, each.`at`, each.reason,
    coalesce(after[0].lane, each.lane, 0) as lane))"""
"""SQL: the events of a visitor, with the lane that was joined."""

STATE = f"""case when last_event in {texts(ENDS)} then 'completed'
            when last_event = '{REMOVED}' then 'removed'
            else 'waiting' end"""
"""SQL: the state of a place, as the ledger counts it."""


def rows_from_events(events: Frame) -> Frame:
    """Events of visitors as rows of `places`, one for each event."""
    return select(events, *_TOLD, where=_IS_OURS)


def heard(events: Frame) -> Frame:
    """Events of visitors, as `ROOM_EVENTS` but for the lanes of their visits."""
    return select(events, *_WHO, _HEARD, where=_IS_OURS)


def room_events(events: Frame, places: Frame) -> Frame:
    """The rows of `ROOM_EVENTS`, from all events and places."""
    lanes = places.selectExpr(*_WHO, "array(struct(lane)) as after")
    told = heard(events).selectExpr(*_WHO, "array(heard) as heard")
    return told.join(lanes, list(_WHO), "left").selectExpr(f"inline({IN_LANES})")


def merged(rows: Frame) -> Frame:
    """Rows of `places` as one for each place."""
    added_up = grouped(select(rows, "*", _TURN), _WHO, *_ADDED_UP)
    return select(added_up, *_MERGED)


def places(events: Frame) -> Frame:
    """The rows of `places`, from all events."""
    return merged(rows_from_events(events))


def open_ids(client: Any, _prefix: str, queue: str) -> Iterator[str]:
    """Ids of visitors who wait, are admitted, were late, or are inside."""
    keys = RoomKeys(queue)
    for key in _lines(keys):
        for each, _ in client.zscan_iter(key, count=1000):
            yield each.decode("utf-8", "backslashreplace")
    for each in client.sscan_iter(keys.sessions, count=1000):
        yield each.decode("utf-8", "backslashreplace")


def still_open(client: Any, _prefix: str, queue: str, ids: Sequence[str]) -> set[str]:
    """Those of these visitors who wait, are admitted, were late, or are inside."""
    try:
        keys = RoomKeys(queue)
    except InvalidOption:
        # An event names what it likes; nobody is in a room that cannot be.
        return set()
    return members(client, ids, zsets=_lines(keys), sets=[keys.sessions])


def _lines(keys: RoomKeys) -> Sequence[str]:
    return keys.prequeue, keys.positions, keys.admitted, keys.missed, keys.recovered
