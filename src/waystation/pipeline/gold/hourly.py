"""Hourly: counts, waits and run times of each queue by the hour."""

from waystation.pipeline.histograms import PERCENTILES, bucket, middle
from waystation.pipeline.storage.sql import Frame, query

HOUR_S = 3600
OF = ("line", "queue", "hour")


def _percentiles(of: str) -> str:
    return ", ".join(
        f"min(case when what = '{of}' and upto >= {part}e0 * total then middle end)"
        f" as {of}_p{part * 100:.0f}_ms"
        for part in PERCENTILES
    )


def _histogram(of: str) -> str:
    pair = f"case when what = '{of}' then struct(bucket, many) end"
    return f"map_from_entries(array_sort(collect_list({pair}))) as {of}_histogram"


# A dead letter that failed in the same instant has two events.
_HOURLY = f"""
with counts as (
    select line, queue, date_trunc('hour', `at`) as `hour`,
           count_if(birth) as added,
           count_if(event = 'active') as started,
           count_if(event = 'completed') as completed,
           count(distinct case when event in ('failed', 'dead')
                               then concat(subject, ' ', unix_micros(told_at)) end) as failed
    from {{steps}}
    group by line, queue, date_trunc('hour', `at`)
), outcomes as (
    select line, queue, date_trunc('hour', started_at) as `hour`,
           count_if(outcome = 'retried') as retried,
           count_if(outcome = 'stalled') as stalled
    from {{attempts}}
    group by line, queue, date_trunc('hour', started_at)
), spans as (
    select line, queue, date_trunc('hour', started_at) as `hour`, 'wait' as what, wait_ms as ms
    from {{attempts}} where wait_ms is not null
    union all
    select line, queue, date_trunc('hour', started_at) as `hour`, 'run' as what, run_ms as ms
    from {{attempts}} where run_ms is not null
), buckets as (
    select line, queue, `hour`, what, bucket, count(*) as many
    from (select *, {bucket("ms")} as bucket from spans)
    group by line, queue, `hour`, what, bucket
), ranked as (
    select *, {middle("bucket")} as middle,
           sum(many) over (partition by line, queue, `hour`, what order by bucket) as upto,
           sum(many) over (partition by line, queue, `hour`, what) as total
    from buckets
), times as (
    select line, queue, `hour`, {_percentiles("wait")}, {_percentiles("run")},
           {_histogram("wait")}, {_histogram("run")}
    from ranked
    group by line, queue, `hour`
), hours as (
    select line, queue, `hour` from counts
    union select line, queue, `hour` from outcomes
)
select hours.line, hours.queue, hours.`hour`,
       coalesce(added, 0) as added,
       coalesce(started, 0) as started,
       coalesce(completed, 0) as completed,
       coalesce(failed, 0) as failed,
       coalesce(retried, 0) as retried,
       coalesce(stalled, 0) as stalled,
       wait_p50_ms, wait_p95_ms, wait_p99_ms, run_p50_ms, run_p95_ms, run_p99_ms,
       (coalesce(completed, 0) + coalesce(failed, 0)) / {HOUR_S} as throughput,
       wait_histogram, run_histogram
from hours
left join counts on hours.line = counts.line and hours.queue = counts.queue
                    and hours.`hour` = counts.`hour`
left join outcomes on hours.line = outcomes.line and hours.queue = outcomes.queue
                      and hours.`hour` = outcomes.`hour`
left join times on hours.line = times.line and hours.queue = times.queue
                   and hours.`hour` = times.`hour`
"""


def hourly(steps: Frame, attempts: Frame) -> Frame:
    """One row for each queue and hour.

    Additions, claims and ends count in the hour they happened; outcomes and times of attempts in
    the hour they were claimed.
    """
    return query(_HOURLY, steps=steps, attempts=attempts)
