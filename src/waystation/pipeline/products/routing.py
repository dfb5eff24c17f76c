"""Routing: rows as jobs, and its tables."""

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, cast

from waystation.core import codec
from waystation.core.clock import SERVER_TIME
from waystation.core.errors import InvalidOption
from waystation.core.events import Product
from waystation.pipeline.product_keys import streams_of
from waystation.pipeline.products import cron_slots
from waystation.pipeline.products.cron_slots import CRON_SLOTS, FIRED_SLOTS, SCHEDULES, instant
from waystation.pipeline.products.facts import (
    FoldedTable,
    ProductFacts,
    State,
    list_elements,
    members,
)
from waystation.pipeline.storage.sql import Frame, grouped, select, texts
from waystation.pipeline.tables import (
    DAY,
    FLAG,
    INSTANT,
    LONG,
    TEXT,
    TEXTS,
    Column,
    Layer,
    Table,
)
from waystation.routing.options import JobOptions, Retry
from waystation.routing.queue import NewJob, record
from waystation.routing.redis import scripts
from waystation.routing.redis.keys import RoutingKeys
from waystation.routing.schedules import Schedule
from waystation.routing.target import Target

_QUEUE = Column("queue", TEXT, "job type")
_TARGET = Column("target", TEXT, "signature of the target that a worker must match")

ROUTED_JOBS = Table(
    name="routed_jobs",
    layer=Layer.SILVER,
    meaning="one row for each job or schedule of routing, and for each time that its id was used "
    "again: what its events add up to, which `routes` and `schedules` are computed from",
    key=("product", "stream", "job_id", "first_recorded_at", "first_seq"),
    partitions=("date",),
    columns=(
        Column("product", TEXT, "product: routing"),
        Column("stream", TEXT, "key of the Redis Stream that it was read from"),
        _QUEUE,
        Column("job_id", TEXT, "id of the job, or of the schedule"),
        Column("origin", TEXT, "added, or fired by a schedule; null when that event is missing"),
        _TARGET,
        Column("ready_at", INSTANT, "when it first waited for a worker"),
        Column("started_at", INSTANT, "when it was first claimed"),
        Column("ended_at", INSTANT, "when it last completed, died, was cancelled or removed"),
        Column("workers", TEXTS, "workers that have claimed it"),
        Column("cron", TEXT, "cron expression of a schedule"),
        Column("timezone", TEXT, "time zone of the expression"),
        Column("first_slot", INSTANT, "when the schedule should fire first"),
        Column("first_recorded_at", INSTANT, "`recorded_at` of its first event"),
        Column("first_seq", LONG, "position of this event among the entries of one millisecond"),
        Column("last_recorded_at", INSTANT, "`recorded_at` of its last event"),
        Column("date", DAY, "day of its first event, in UTC"),
    ),
)

ROUTE_DAYS = Table(
    name="route_days",
    layer=Layer.SILVER,
    meaning="one row for each job type, target and day: jobs added on that day, which `routes` is "
    "added up from",
    key=("queue", "target", "date"),
    # Without partitions: it is read as a whole by every refresh, and a file for each day would cost
    # more than its rows.
    columns=(
        _QUEUE,
        _TARGET,
        Column("date", DAY, "day on which the jobs were added, in UTC"),
        Column("added", LONG, "jobs added"),
        Column("started", LONG, "of them, claimed at least once"),
        Column("waiting", LONG, "of them, ready and neither claimed nor ended"),
        Column("workers", TEXTS, "workers that have claimed one"),
        Column("wait_ms", LONG, "longest wait until the first claim, in milliseconds"),
        Column("head_since", INSTANT, "since when the oldest waiting job waits"),
        Column("last_recorded_at", INSTANT, "`recorded_at` of the last event of one of them"),
    ),
)

ROUTES = Table(
    name="routes",
    layer=Layer.GOLD,
    meaning="one row for each job type and target: jobs that need it, workers that serve it",
    key=("queue", "target"),
    columns=(
        _QUEUE,
        _TARGET,
        Column("added", LONG, "jobs added"),
        Column("started", LONG, "of them, claimed at least once"),
        Column("waiting", LONG, "of them, ready and neither claimed nor ended"),
        Column("workers", LONG, "workers that have claimed one"),
        Column("unserved", FLAG, "jobs wait, and no worker has ever claimed one"),
        Column("wait_ms", LONG, "longest wait until the first claim, in milliseconds"),
        Column("head_since", INSTANT, "since when the oldest waiting job waits"),
        Column("head_ms", LONG, "milliseconds that it has waited at the last event of a job"),
    ),
)

_ENDS = ("completed", "dead", "cancelled", "removed")
_OF_NO_JOB = ("joined", "left", "lost", "paused", "resumed", "skipped")
"""Events of workers, of queues, and of slots that no job was made for."""
IS_SCHEDULE = "(event = 'delayed' and fields['kind'] = 'cron')"

# One row for each event.
_TOLD = (
    "product",
    "stream",
    "queue",
    "job_id",
    "case when event in ('added', 'fired') then event end as origin",
    "case when event = 'added' then fields['target'] end as target",
    "case when event = 'waiting' then `at` end as ready_at",
    "case when event = 'active' then `at` end as started_at",
    f"case when event in {texts(_ENDS)} then `at` end as ended_at",
    "case when event = 'active' and worker is not null then array_repeat(worker, 1) end as workers",
    f"case when {IS_SCHEDULE} then fields['cron'] end as cron",
    f"case when {IS_SCHEDULE} then fields['timezone'] end as timezone",
    f"case when {IS_SCHEDULE} then {instant('due')} end as first_slot",
    "recorded_at as first_recorded_at",
    "seq as first_seq",
    "recorded_at as last_recorded_at",
)
_IS_OURS = (
    f"product = '{Product.ROUTING.value}' and job_id is not null "
    f"and event not in {texts(_OF_NO_JOB)}"
)

# An event belongs to the last addition before it. The queue of some is empty.
WHO = ("product", "stream", "job_id")
"""Columns that identify a job, whose queue some events lack."""
_LIFE = f"""sum(case when origin is null then 0 else 1 end)
    over (partition by {", ".join(WHO)} order by first_recorded_at, first_seq
          rows between unbounded preceding and current row) as run_no"""
_ADDED_UP = (
    "max(queue) as queue",
    "max(origin) as origin",
    "max(target) as target",
    "min(ready_at) as ready_at",
    "min(started_at) as started_at",
    "max(ended_at) as ended_at",
    "array_sort(array_distinct(flatten(collect_list(workers)))) as workers",
    "max(cron) as cron",
    "max(timezone) as timezone",
    "min(first_slot) as first_slot",
    "min(first_recorded_at) as first_recorded_at",
    "min_by(first_seq, struct(first_recorded_at, first_seq)) as first_seq",
    "max(last_recorded_at) as last_recorded_at",
    "to_date(min(first_recorded_at)) as `date`",
)


def rows_from_events(events: Frame) -> Frame:
    """Events of jobs as rows of `routed_jobs`, one for each event."""
    return select(events, *_TOLD, where=_IS_OURS)


def merged(rows: Frame) -> Frame:
    """Rows of `routed_jobs` as one for each time that a job was added."""
    return grouped(select(rows, "*", _LIFE), (*WHO, "run_no"), *_ADDED_UP)


def routed_jobs(events: Frame) -> Frame:
    """The rows of `routed_jobs`, from all events."""
    return merged(rows_from_events(events))


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


def _still_open(client: Any, prefix: str, _queue: str, ids: Sequence[str]) -> set[str]:
    keys = RoutingKeys(prefix)
    kept = {"zsets": [keys.delayed, keys.cron], "sets": [keys.active], "hashes": [keys.held]}
    found = members(client, ids, **kept)
    return found.union(
        each for each in ids if each not in found and _is_waiting(client, keys, each)
    )


def _is_waiting(client: Any, keys: RoutingKeys, job_id: str) -> bool:
    """Whether the list has a job: where the index says, or elsewhere, which takes a walk."""
    rank = client.zrank(keys.places, job_id)
    if rank is not None and client.lindex(keys.waiting, rank) == job_id.encode():
        return True
    # Other clients push and take jobs without the index.
    return client.lpos(keys.waiting, job_id) is not None


FACTS = ProductFacts(
    product=Product.ROUTING,
    streams=streams_of(Product.ROUTING),
    states=(
        State("waiting", "list"),
        State("delayed", "zset"),
        State("cron", "zset"),
        State("deadletter", "list"),
    ),
    state_key=_state_key,
    ended_states=("deadletter",),
    open_ids=_open_ids,
    still_open=_still_open,
    encoder=RoutingEncoder(),
    stream_limit=lambda prefix, _: (RoutingKeys(prefix).events_cap, ""),
    followed_key=lambda prefix: RoutingKeys(prefix).history,
    folded=(
        FoldedTable(
            ROUTED_JOBS,
            Product.ROUTING,
            rows_from_events,
            merged,
            continues="origin is null",
            who=WHO,
        ),
        # The day of a slot is in its event.
        FoldedTable(
            FIRED_SLOTS,
            Product.ROUTING,
            cron_slots.rows_from_events,
            cron_slots.merged,
            continues="false",
        ),
    ),
    tables=(ROUTE_DAYS, ROUTES, SCHEDULES, CRON_SLOTS),
)
