"""Routing: rows as jobs, and the tables `routes` and `cron_slots`."""

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, cast

from waystation.core import codec
from waystation.core.errors import InvalidOption
from waystation.core.events import Line
from waystation.core.line.server_time import SERVER_TIME
from waystation.pipeline.products.facts import ProductFacts, ProductTable, State, list_elements
from waystation.pipeline.storage.arrow import pa
from waystation.pipeline.storage.sql import Frame, query, to_arrow
from waystation.pipeline.stream_names import streams_of
from waystation.pipeline.tables import FLAG, INSTANT, INT, LONG, TEXT, Column, Layer, Table
from waystation.routing.options import JobOptions, Retry
from waystation.routing.queue import NewJob, record
from waystation.routing.redis import scripts
from waystation.routing.redis.keys import RoutingKeys
from waystation.routing.schedules import Schedule, next_slot
from waystation.routing.target import Target

LATE_MS = 5_000
"""Delay from which on a slot is late."""
MOST_SLOTS = 100_000
"""Most slots that are expected of one schedule."""

ROUTES = Table(
    name="routes",
    layer=Layer.GOLD,
    meaning="one row for each job type and target: jobs that need it, workers that serve it",
    key=("queue", "target"),
    columns=(
        Column("queue", TEXT, "job type"),
        Column("target", TEXT, "signature of the target that a worker must match"),
        Column("added", LONG, "jobs added"),
        Column("started", LONG, "of them, claimed at least once"),
        Column("waiting", LONG, "of them, ready and neither claimed nor ended"),
        Column("workers", LONG, "workers that have claimed one"),
        Column("unserved", FLAG, "jobs wait, and no worker has ever claimed one"),
        Column("wait_ms", LONG, "longest wait until the first claim, in milliseconds"),
        Column("head_since", INSTANT, "since when the oldest waiting job waits"),
        Column("head_ms", LONG, "milliseconds that it has waited at the last event"),
    ),
)

CRON_SLOTS = Table(
    name="cron_slots",
    layer=Layer.GOLD,
    meaning="one row for each slot of a schedule: expected by its cron expression, and fired",
    key=("queue", "schedule", "slot"),
    columns=(
        Column("queue", TEXT, "job type"),
        Column("schedule", TEXT, "id of the schedule"),
        Column("slot", INSTANT, "when it should fire"),
        Column("expected", FLAG, "whether the cron expression has this slot"),
        Column("fired", INT, "times it fired"),
        Column("fired_at", INSTANT, "when it first fired"),
        Column("late_ms", LONG, "milliseconds from `slot` to `fired_at`"),
        Column("skipped", TEXT, "why it was skipped, where the event has it"),
        Column("verdict", TEXT, "on time, late, doubled, skipped, missed or unexpected"),
    ),
)


class RoutingEncoder:
    """Encodes a row as a job of its type; text must be JSON."""

    add = scripts.dispatch
    columns = ("type", "payload", "target", "priority", "delay", "attempts", "job_id")
    width = 8

    def keys(self, queue: str, prefix: str) -> RoutingKeys:
        """The keys of the namespace; each row's type is its queue."""
        return RoutingKeys(prefix)

    def leading(self, keys: RoutingKeys) -> Sequence[str]:
        """The namespace, and the server's time."""
        return keys.namespace, SERVER_TIME

    def with_setup(self, setup: str) -> "RoutingEncoder":
        """Refuse a setup: routing has none."""
        raise InvalidOption(f"routing takes no setup, got {setup}")

    def job(self, keys: RoutingKeys, row: Mapping[str, Any]) -> Sequence[Any]:
        """Kind, id, data, route, due time; no key and no jobs to wait for."""
        get = row.get
        given: dict[str, Any] = {
            "target": _json(get("target"), Target),
            "schedule": Schedule(delay=(get("delay") or 0) / 1000),
            "retry": None if get("attempts") is None else Retry(attempts=row["attempts"]),
            "priority": get("priority"),
            "job_id": get("job_id"),
        }
        options = JobOptions(**{name: value for name, value in given.items() if value is not None})
        payload = _json(get("payload"), Any)
        return record(
            NewJob(cast(str, get("type")), payload, options), now_ms=time.time_ns() // 1_000_000
        )


def _json(text: Any, kind: Any) -> Any:
    return codec.decode(text, kind) if isinstance(text, str) else text


_ROUTES = f"""
with ours as (
    select * from {{events}} where line = '{Line.ROUTING.value}'
), added as (
    select queue, subject, fields['target'] as target from ours where event = 'added'
), fates as (
    select subject,
           min(case when event = 'waiting' then `at` end) as ready_at,
           min(case when event = 'active' then `at` end) as started_at,
           max(case when event in ('completed', 'dead', 'cancelled', 'removed') then `at` end)
               as ended_at
    from ours
    group by subject
), served as (
    select queue, target, count(distinct worker) as workers
    from added join (select subject, worker from ours where event = 'active') as claims
               on added.subject = claims.subject
    group by queue, target
), waits as (
    select queue, target, started_at,
           ready_at is not null and started_at is null and ended_at is null as waits,
           ready_at,
           unix_millis(started_at) - unix_millis(ready_at) as waited
    from added join fates on added.subject = fates.subject
), counted as (
    select queue, target,
           count(*) as added,
           count(started_at) as started,
           count_if(waits) as waiting,
           max(waited) as wait_ms,
           min(case when waits then ready_at end) as head_since
    from waits
    group by queue, target
), last_event as (
    select max(told_at) as last_at from ours
)
select counted.queue, counted.target, added, started, waiting,
       coalesce(workers, 0) as workers,
       waiting > 0 and coalesce(workers, 0) = 0 as unserved,
       wait_ms, head_since,
       unix_millis(last_at) - unix_millis(head_since) as head_ms
from counted
left join served on counted.queue = served.queue
                    and counted.target is not distinct from served.target
cross join last_event
"""


def routes(events: Frame) -> Frame:
    """One row for each job type and target."""
    return query(_ROUTES, events=events)


def expected_slots(cron: str, timezone: str, first_ms: int, until_ms: int) -> list[int]:
    """The slots of a schedule from its first up to an instant, in its time zone."""
    slots: list[int] = []
    slot: int | None = first_ms
    while slot is not None and slot <= until_ms and len(slots) < MOST_SLOTS:
        slots.append(slot)
        slot = next_slot(cron, timezone, slot)
    return slots


_SCHEDULES = f"""
with ours as (
    select * from {{events}} where line = '{Line.ROUTING.value}'
), ends as (
    select subject, min(`at`) as stopped_at from ours where event = 'cancelled' group by subject
), last_event as (
    select max(told_at) as last_at from ours
)
select queue, ours.subject as schedule, fields['cron'] as cron, fields['timezone'] as timezone,
       try_cast(fields['due'] as bigint) as first_ms,
       unix_millis(coalesce(stopped_at, last_at)) as until_ms
from ours left join ends on ours.subject = ends.subject cross join last_event
where event = 'delayed' and fields['kind'] = 'cron'
"""

_CRON_SLOTS = f"""
with fired as (
    select queue, fields['schedule'] as schedule, try_cast(fields['slot'] as bigint) as slot_ms,
           cast(count_if(event = 'fired') as int) as fired,
           min(case when event = 'fired' then `at` end) as fired_at,
           max(case when event = 'skipped' then fields['reason'] end) as skipped
    from {{events}}
    where line = '{Line.ROUTING.value}' and event in ('fired', 'skipped')
    group by queue, fields['schedule'], try_cast(fields['slot'] as bigint)
), expected as (
    select distinct queue, schedule, slot_ms from {{expected}}
), slots as (
    select queue, schedule, slot_ms from expected
    union select queue, schedule, slot_ms from fired
), known as (
    select slots.queue, slots.schedule, slots.slot_ms,
           expected.slot_ms is not null as expected,
           coalesce(fired, 0) as fired,
           fired_at,
           unix_millis(fired_at) - slots.slot_ms as late_ms,
           skipped
    from slots
    left join expected on slots.queue = expected.queue and slots.schedule = expected.schedule
                          and slots.slot_ms = expected.slot_ms
    left join fired on slots.queue = fired.queue and slots.schedule = fired.schedule
                       and slots.slot_ms = fired.slot_ms
)
select queue, schedule, timestamp_millis(slot_ms) as slot, expected, fired, fired_at, late_ms,
       skipped,
       case when fired > 1 then 'doubled'
            when fired = 1 and not expected then 'unexpected'
            when fired = 1 and late_ms > {LATE_MS} then 'late'
            when fired = 1 then 'on time'
            when skipped is not null then 'skipped'
            else 'missed' end as verdict
from known
"""


def cron_slots(events: Frame) -> Frame:
    """One row for each slot that a schedule should have fired or has fired."""
    schedules = to_arrow(query(_SCHEDULES, events=events)).to_pylist()
    return query(_CRON_SLOTS, events=events, expected=_expected(schedules))


def _expected(schedules: Sequence[Mapping[str, Any]]) -> Any:
    """The slots of every schedule, until it was cancelled or up to the last event."""
    rows = [
        {"queue": each["queue"], "schedule": each["schedule"], "slot_ms": slot}
        for each in schedules
        if each["cron"] and each["first_ms"] is not None
        for slot in expected_slots(
            each["cron"], each["timezone"], each["first_ms"], each["until_ms"]
        )
    ]
    columns = [("queue", pa.string()), ("schedule", pa.string()), ("slot_ms", pa.int64())]
    return pa.Table.from_pylist(rows, schema=pa.schema(columns))


def _state_key(prefix: str, _queue: str, state: str) -> str:
    return f"{RoutingKeys(prefix).name}:jobs:{state}"


def _open_ids(client: Any, prefix: str, _queue: str) -> Iterator[str]:
    """Ids of jobs that wait, are held by a worker, are due later, or wait for other jobs."""
    keys = RoutingKeys(prefix)
    found = chain(
        list_elements(client, keys.waiting),
        client.sscan_iter(keys.active, count=1000),
        (each for each, _ in client.zscan_iter(keys.delayed, count=1000)),
        (each for each, _ in client.zscan_iter(keys.cron, count=1000)),
        (each for each, _ in client.hscan_iter(keys.held, count=1000)),
    )
    return (each.decode("utf-8", "backslashreplace") for each in found)


FACTS = ProductFacts(
    line=Line.ROUTING,
    streams=streams_of(Line.ROUTING),
    states=(
        State("waiting", "list"),
        State("delayed", "zset"),
        State("cron", "zset"),
        State("deadletter", "list"),
    ),
    state_key=_state_key,
    ended_states=("deadletter",),
    open_ids=_open_ids,
    encoder=RoutingEncoder(),
    stream_limit=lambda prefix, _: (RoutingKeys(prefix).events_cap, ""),
    tables=(
        ProductTable(ROUTES, lambda history, _: routes(history.events_of(Line.ROUTING.value))),
        ProductTable(
            CRON_SLOTS, lambda history, _: cron_slots(history.events_of(Line.ROUTING.value))
        ),
    ),
)
