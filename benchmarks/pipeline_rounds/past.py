"""A made-up past: events of a month, of jobs of which some fail and are tried again."""

import datetime as dt
from collections.abc import Iterator

import duckdb

from waystation.pipeline.storage import delta
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.parts import PartWriter
from waystation.pipeline.tables import EVENTS

QUEUES = 8
EVENTS_A_JOB = 5.2
DAYS = 30
JOBS_AT_ONCE = 200_000

_EVENTS = """
with jobs as (
    select range as id, hash(range) % 100 as fate, 1 + hash(range + 7) % 900 as gap,
           {start} + range * {every} as born
    from range({first}, {last})
), stories as (
    select *, case when fate < 70 then ['added', 'waiting', 'active', 'completed']
              else ['added', 'waiting', 'active', 'delayed', 'retry', 'waiting', 'active',
                    case when fate < 97 then 'completed' else 'failed' end] end as story
    from jobs
), events as (
    select id, born, gap, unnest(story) as event, generate_subscripts(story, 1) - 1 as nth
    from stories
), timed as (
    select *, cast(born + nth * gap as bigint) as ms from events
)
select 'bullmq' as product, 'q' || id % {queues} as queue,
       'bull:q' || id % {queues} || ':events' as stream,
       ms || '-' || id as entry_id, cast(id as bigint) as seq,
       make_timestamptz(ms * 1000) as recorded_at, make_timestamptz(ms * 1000) as at, event,
       cast(id as varchar) as job_id, null::int as attempt,
       case when event = 'active' then 'w' || id % 16 end as worker,
       case when event in ('retry', 'failed')
            then map {{'failedReason': 'TimeoutError: shop ' || chr(cast(97 + id % 20 as int))
                                       || ' gave no answer to ' || id}}
            when event = 'waiting' and nth > 1 then map {{'prev': 'delayed'}}
            else map {{}} end as fields,
       1::int as version, null::varchar as _corrupt, make_timestamptz(ms * 1000)::date as date
from timed
order by id, nth
"""


def write(root: str, events: int) -> Iterator[int]:
    """Leave about so many events of the last month in a history, some days after the others.

    Says how many each time.
    """
    jobs = round(events / EVENTS_A_JOB)
    start = dt.datetime.now(dt.UTC) - dt.timedelta(days=DAYS)
    for first in range(0, jobs, JOBS_AT_ONCE):
        query = _EVENTS.format(
            first=first,
            last=min(jobs, first + JOBS_AT_ONCE),
            start=int(start.timestamp() * 1000),
            every=(DAYS * 24 - 1) * 3_600_000 // jobs,
            queues=QUEUES,
        )
        with duckdb.connect() as db, PartWriter.of(root, EVENTS) as writer:
            db.execute("set TimeZone = 'UTC'; set enable_progress_bar = false")
            for batch in db.sql(query).to_arrow_reader(100_000):
                writer.write(batch.select(EVENTS.names))
        batch = BatchId("past", first)
        path, by = EVENTS.path(root), EVENTS.partitions
        delta.commit(path, EVENTS.schema, writer.parts, batch, partitions=by)
        yield sum(part.rows for part in writer.parts)
