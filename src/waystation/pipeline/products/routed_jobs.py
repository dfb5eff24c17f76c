"""Routed jobs: what the events of each job add up to, and how targets are served."""

from waystation.core.events import Line
from waystation.pipeline.storage.sql import Frame, grouped, select, texts
from waystation.pipeline.tables import (
    DAY,
    FLAG,
    INSTANT,
    LAST_MS,
    LONG,
    TEXT,
    TEXTS,
    Column,
    Layer,
    Table,
)

_QUEUE = Column("queue", TEXT, "job type")
_TARGET = Column("target", TEXT, "signature of the target that a worker must match")

ROUTED_JOBS = Table(
    name="routed_jobs",
    layer=Layer.SILVER,
    meaning="one row for each job or schedule of routing, and for each time that its id was used "
    "again: what its events add up to, which `routes` and `schedules` are computed from",
    key=("line", "stream", "subject", "first_told_at", "first_seq"),
    partitions=("date",),
    columns=(
        Column("line", TEXT, "product: routing"),
        Column("stream", TEXT, "key of the Redis Stream that it was read from"),
        _QUEUE,
        Column("subject", TEXT, "id of the job, or of the schedule"),
        Column("origin", TEXT, "added, or fired by a schedule; null when that event is missing"),
        _TARGET,
        Column("ready_at", INSTANT, "when it first waited for a worker"),
        Column("started_at", INSTANT, "when it was first claimed"),
        Column("ended_at", INSTANT, "when it last completed, died, was cancelled or removed"),
        Column("workers", TEXTS, "workers that have claimed it"),
        Column("cron", TEXT, "cron expression of a schedule"),
        Column("timezone", TEXT, "time zone of the expression"),
        Column("first_slot", INSTANT, "when the schedule should fire first"),
        Column("first_told_at", INSTANT, "`told_at` of its first event"),
        Column("first_seq", LONG, "position of this event among the entries of one millisecond"),
        Column("last_told_at", INSTANT, "`told_at` of its last event"),
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
        Column("last_told_at", INSTANT, "`told_at` of the last event of one of them"),
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


def instant(name: str) -> str:
    """SQL: the instant in one of an event's own fields; null when there is none in it."""
    millis = f"try_cast(fields['{name}'] as bigint)"
    return f"case when {millis} between 0 and {LAST_MS} then timestamp_millis({millis}) end"


# One row for each event.
_TOLD = (
    "line",
    "stream",
    "queue",
    "subject",
    "case when event in ('added', 'fired') then event end as origin",
    "case when event = 'added' then fields['target'] end as target",
    "case when event = 'waiting' then `at` end as ready_at",
    "case when event = 'active' then `at` end as started_at",
    f"case when event in {texts(_ENDS)} then `at` end as ended_at",
    "case when event = 'active' and worker is not null then array_repeat(worker, 1) end as workers",
    f"case when {IS_SCHEDULE} then fields['cron'] end as cron",
    f"case when {IS_SCHEDULE} then fields['timezone'] end as timezone",
    f"case when {IS_SCHEDULE} then {instant('due')} end as first_slot",
    "told_at as first_told_at",
    "seq as first_seq",
    "told_at as last_told_at",
)
_IS_OURS = (
    f"line = '{Line.ROUTING.value}' and subject is not null and event not in {texts(_OF_NO_JOB)}"
)

# An event belongs to the last addition before it. The queue of some is empty.
WHO = ("line", "stream", "subject")
"""Columns that identify a job, whose queue some events lack."""
_LIFE = f"""sum(case when origin is null then 0 else 1 end)
    over (partition by {", ".join(WHO)} order by first_told_at, first_seq
          rows between unbounded preceding and current row) as life"""
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
    "min(first_told_at) as first_told_at",
    "min_by(first_seq, struct(first_told_at, first_seq)) as first_seq",
    "max(last_told_at) as last_told_at",
    "to_date(min(first_told_at)) as `date`",
)


def told(events: Frame) -> Frame:
    """Events of jobs as rows of `routed_jobs`, one for each event."""
    return select(events, *_TOLD, where=_IS_OURS)


def merged(rows: Frame) -> Frame:
    """Rows of `routed_jobs` as one for each time that a job was added."""
    return grouped(select(rows, "*", _LIFE), (*WHO, "life"), *_ADDED_UP)


def routed_jobs(events: Frame) -> Frame:
    """The rows of `routed_jobs`, from all events."""
    return merged(told(events))
