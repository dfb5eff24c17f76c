"""Made-up jobs of a kilobyte, kept as the pipeline keeps them.

Files have the rows of one round each, in the order in which they were read, until a day has so many
of them that the pipeline's own compaction rewrites it.
"""

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any

import duckdb
from deltalake import DeltaTable

from waystation.pipeline.history import History
from waystation.pipeline.maintenance.compaction import compact_where_needed
from waystation.pipeline.spark.session import build_session
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.parts import Part, PartWriter
from waystation.pipeline.tables import ATTEMPTS, EVENTS, FIELD_VALUES, ITEMS, PAYLOADS, Table

DAY = dt.timedelta(days=1)
DAYS = 30
START = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
ROUNDS = 60
"""Rounds of a day: enough files for a compaction."""
QUEUES = 4
OF_A_TENANT = 20
"""Jobs that a tenant has, on average."""
LONGEST_S = 95
"""Seconds after which every job has ended."""

# Half of what a job holds are tokens, which cannot be compressed well, and half are words.
_JOBS = f"""
select range as n, 'q' || range % {QUEUES} as queue,
       -- One queue has ids of its own, as many have that give them themselves.
       case when range % {QUEUES} = 0 then md5('id' || range) else cast(range as varchar) end
           as job_id,
       case when range % 3 = 0 then 'charge' else 'send' end as name,
       case when hash(range) % 50 = 0 then 'failed' else 'completed' end as state,
       make_timestamptz(cast({int(START.timestamp()) * 1_000_000}
           + cast(range as hugeint) * {DAYS * 86_400_000_000} // <jobs> as bigint)) as added_at,
       't' || hash(range + 1) % greatest(1, <jobs> // {OF_A_TENANT}) as tenant,
       'o' || md5('order' || range)[:12] as "order",
       ['DE', 'FR', 'IT', 'ES', 'PL'][cast(1 + hash(range + 2) % 5 as bigint)] as country,
       hash(range + 3) % 100000 as amount
from range(<first>, <last>)
"""
_WORDS = (
    "please call the customer back about the late parcel that was sent to the old address, "
    "and do not charge the card again before somebody has looked at the refund of last week; "
)
_NOTE = " || ".join(f"'{_WORDS}'[1 + n % {each}:]" for each in (40, 70, 90, 110))
_TOKENS = " || ".join(f"md5('{letter}' || n)" for letter in "abcdefghijkl")
_WHOLE = f"""
select *, added_at + interval 1 second * (1 + n % 50) as started_at,
       started_at + interval 1 millisecond * (500 + n * 7919 % 40000) as ended_at,
       case when state = 'failed' then 'TimeoutError: no answer to ' || n end as reason,
       '{{"tenant":"' || tenant || '","order":{{"id":"' || "order" || '","amount":' || amount
       || '}},"country":"' || country || '","token":"' || {_TOKENS} || '","note":"'
       || {_NOTE} || '"}}' as data
from jobs
"""
_READS = """
select *, added_at as read_at, false as ended from whole
union all select *, ended_at as read_at, true as ended from whole
"""
_PAYLOADS = """
select 'bullmq' as product, queue, job_id, read_at, added_at, ended, name, data, 'plain' as form,
       '{"attempts":3}' as options, 0::int as priority, 0::bigint as delay_ms,
       ended::int as attempts,
       null::varchar as parent, null::varchar as "group", null::varchar as deduplication,
       null::varchar as scheduler, null::varchar as trace,
       case when ended and state = 'completed' then '{"ok":' || n || '}' end as result,
       null::varchar as progress, case when ended then reason end as reason,
       null::varchar as stacktrace, null::varchar[] as logs,
       map {'order': "order", 'tenant': tenant} as fields, length(data) as bytes,
       null::varchar as left_out, read_at::date as date, read_at as written_at
from reads
"""
_VALUES = """
with declared as (
    select *, unnest(['tenant', 'order']) as field, unnest([tenant, "order"]) as value from reads
)
select 'bullmq' as product, queue, job_id, field, value, read_at, read_at::date as date,
       read_at as written_at
from declared
"""
_ITEMS = """
select 'bullmq' as product, queue, job_id, name, added_at, started_at, ended_at, state,
       1::int as attempts, 0::int as retries, 0::int as stalls,
       epoch_ms(started_at) - epoch_ms(added_at) as wait_ms,
       epoch_ms(ended_at) - epoch_ms(started_at) as run_ms,
       epoch_ms(ended_at) - epoch_ms(added_at) as total_ms, reason,
       case when reason is not null then 'f00d' end as fingerprint, 0::int as duplicates,
       ended_at as last_recorded_at, null::varchar as _corrupt, added_at::date as date,
       ended_at as written_at
from whole
"""
_EVENTS = """
with events as (
    select *, unnest(['added', 'waiting', 'active', state]) as event,
           unnest([added_at, added_at, started_at, ended_at]) as recorded_at
    from whole
)
select 'bullmq' as product, queue, 'bull:' || queue || ':events' as stream,
       epoch_ms(recorded_at) || '-' || n as entry_id, n as seq, recorded_at, recorded_at as "at",
       event, job_id, null::int as attempt,
       case when event = 'active' then 'w' || n % 16 end as worker,
       case event when 'failed' then map {'failedReason': reason}
                  when 'completed' then map {'returnvalue': '{"ok":' || n || '}'}
                  else map {} end as fields,
       1::int as version, null::varchar as _corrupt, recorded_at::date as date,
       recorded_at as written_at
from events
"""
_ATTEMPTS = """
select 'bullmq' as product, queue, job_id, 1::int as attempt, 'w' || n % 16 as worker,
       added_at as ready_at, started_at, ended_at,
       epoch_ms(started_at) - epoch_ms(added_at) as wait_ms,
       epoch_ms(ended_at) - epoch_ms(started_at) as run_ms, state as outcome,
       case when reason is not null then 'TimeoutError' end as error_class,
       case when reason is not null then 'f00d' end as fingerprint, reason,
       null::varchar as _corrupt, started_at::date as date, ended_at as written_at
from whole
"""
FOUND: Mapping[Table, str] = {ITEMS: _ITEMS, PAYLOADS: _PAYLOADS, FIELD_VALUES: _VALUES}
"""The tables that jobs are found in."""
OTHERS: Mapping[Table, str] = {EVENTS: _EVENTS, ATTEMPTS: _ATTEMPTS}
"""Tables that take room too; only their first day is written."""


def write(root: str, jobs: int) -> None:
    """Keep so many jobs of a month."""
    history = History(build_session, root)
    with duckdb.connect(config={"threads": 2}) as db:
        db.execute("set TimeZone = 'UTC'; set enable_progress_bar = false")
        for day in range(DAYS):
            for table, query in FOUND.items():
                _keep_day(db, root, table, query, jobs, day)
            if day == 0:
                for table, query in OTHERS.items():
                    _keep_day(db, root, table, query, jobs, day)
            compact_where_needed(history)
            # What compaction has replaced would be kept for a week.
            for table in (*FOUND, *OTHERS):
                DeltaTable(table.path(root)).vacuum(
                    retention_hours=0, dry_run=False, enforce_retention_duration=False
                )


def describe(db: duckdb.DuckDBPyConnection, first: int, last: int, jobs: int) -> None:
    """Make some of the jobs the views `jobs`, `whole` and `reads`."""
    text = _JOBS.replace("<jobs>", str(jobs)).replace("<first>", str(first))
    db.execute(f"create or replace view jobs as {text.replace('<last>', str(last))}")
    db.execute(f"create or replace view whole as {_WHOLE}")
    db.execute(f"create or replace view reads as {_READS}")


def bytes_per_job(root: str, jobs: int) -> dict[str, float]:
    """Bytes of the files of each table, for each job that is in them."""
    of_first_day = -(-jobs // DAYS)
    return {
        table.name: sum(_sizes(table.path(root))) / (jobs if table in FOUND else of_first_day)
        for table in (*FOUND, *OTHERS)
    }


def _sizes(path: str) -> Iterator[int]:
    actions: Any = DeltaTable(path).get_add_actions(flatten=True)
    for column, values in zip(actions.column_names, actions.columns, strict=True):
        if column == "size_bytes":
            yield from values.to_pylist()


def _keep_day(
    db: duckdb.DuckDBPyConnection, root: str, table: Table, query: str, jobs: int, day: int
) -> None:
    """One commit with a file of each round, which has what was written in it."""
    since = START + day * DAY
    # The last day has all that is left.
    until = since + (2 if day == DAYS - 1 else 1) * DAY
    first = _number(since - dt.timedelta(seconds=LONGEST_S), jobs)
    describe(db, first, min(jobs, _number(until, jobs) + 1), jobs)
    rows = db.sql(
        f"select * exclude (written_at) from ({query}) where written_at >= '{since}' "
        f"and written_at < '{until}' order by written_at"
    ).to_arrow_table()
    parts: list[Part] = []
    size = -(-rows.num_rows // ROUNDS)
    for start in range(0, rows.num_rows, size):
        with PartWriter.of(root, table) as writer:
            for batch in rows.slice(start, size).select(table.names).to_batches():
                writer.write(batch)
        parts += writer.parts
    batch_id = BatchId("made-up", day)
    delta.commit(table.path(root), table.schema, parts, batch_id, partitions=table.partitions)


def _number(at: dt.datetime, jobs: int) -> int:
    """The first job that was added at an instant or after it, or the one before."""
    return max(0, int((at - START) / (DAYS * DAY) * jobs) - 1)
