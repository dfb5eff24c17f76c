"""The ledger: every job that was added has ended, is in the queue, was removed, or is lost.

The snapshot of the queues must be taken before the events are read: then a job that is not in it
had ended by then, and its end is among the events. A job with neither is lost.
"""

from waystation.pipeline.silver.items import HAS_ENDED
from waystation.pipeline.storage.sql import Frame, query

LOST = "lost"
"""The fate of a job that is neither in its queue nor ended nor removed."""
EXAMPLES = 20
OF = ("line", "queue", "hour")
ARRIVAL = "date_trunc('hour', coalesce(added_at, to_utc_timestamp(`date`, 'UTC')))"
"""The hour in which an item was added; the first hour of its day if that is unknown."""

# Where the server does not count entries, at least one is lost.
_GONE = """
    select line, queue, date_trunc('hour', before_at) as `hour`,
           sum(coalesce(lost, 1)) as gaps
    from {gaps}
    group by line, queue, date_trunc('hour', before_at)
"""

_ACCOUNTS = f"""
with arrivals as (
    select line, queue, {ARRIVAL} as `hour`,
           count(*) as acknowledged,
           count_if({HAS_ENDED} and state <> 'removed') as terminal,
           count_if(state = 'removed') as removed,
           count_if(duplicates > 0) as duplicated
    from {{items}}
    group by line, queue, {ARRIVAL}
), gone as ({_GONE}), hours as (
    select line, queue, `hour` from arrivals
    union select line, queue, `hour` from gone
)
select hours.line, hours.queue, hours.`hour`,
       coalesce(acknowledged, 0) as acknowledged,
       coalesce(terminal, 0) as terminal,
       coalesce(removed, 0) as removed,
       coalesce(duplicated, 0) as duplicated,
       coalesce(gaps, 0) as gaps
from hours
left join arrivals on hours.line = arrivals.line and hours.queue = arrivals.queue
                      and hours.`hour` = arrivals.`hour`
left join gone on hours.line = gone.line and hours.queue = gone.queue
                  and hours.`hour` = gone.`hour`
"""

_WITHOUT_SNAPSHOT = """
select line, queue, `hour`,
       max(acknowledged) as acknowledged,
       max(terminal) as terminal,
       max(removed) as removed,
       max(duplicated) as duplicated,
       max(gaps) as gaps,
       cast(null as bigint) as visible,
       cast(null as bigint) as lost,
       collect_list(cast(null as string)) as lost_ids,
       cast(null as boolean) as clean
from {accounts}
group by line, queue, `hour`
"""

_WITH_SNAPSHOT = f"""
with ranked as (
    select line, queue, subject, fate, {ARRIVAL} as `hour`,
           row_number() over (partition by line, queue, {ARRIVAL}, fate order by subject) as rank
    from {{missing}}
), missed as (
    select line, queue, `hour`,
           count_if(fate = '{LOST}') as lost,
           count_if(fate <> '{LOST}') as silently
    from ranked
    group by line, queue, `hour`
), named as (
    select accounts.line, accounts.queue, accounts.`hour`,
           array_sort(collect_list(case when fate = '{LOST}' and rank <= {EXAMPLES}
                                        then subject end)) as lost_ids
    from {{accounts}} as accounts
    left join ranked on accounts.line = ranked.line and accounts.queue = ranked.queue
                        and accounts.`hour` = ranked.`hour`
    group by accounts.line, accounts.queue, accounts.`hour`
), counted as (
    select accounts.line, accounts.queue, accounts.`hour`, acknowledged, terminal,
           removed + coalesce(silently, 0) as removed,
           coalesce(lost, 0) as lost,
           duplicated, gaps
    from {{accounts}} as accounts
    left join missed on accounts.line = missed.line and accounts.queue = missed.queue
                        and accounts.`hour` = missed.`hour`
)
select counted.line, counted.queue, counted.`hour`, acknowledged, terminal, removed,
       acknowledged - terminal - removed - lost as visible,
       lost, duplicated, gaps, lost_ids,
       lost = 0 and duplicated = 0 and gaps = 0 as clean
from counted
join named on counted.line = named.line and counted.queue = named.queue
              and counted.`hour` = named.`hour`
"""


def ledger(items: Frame, gaps: Frame, missing: Frame | None) -> Frame:
    """One row for each queue and hour of arrival; `missing` is None without a snapshot."""
    accounts = query(_ACCOUNTS, items=items, gaps=gaps)
    if missing is None:
        return query(_WITHOUT_SNAPSHOT, accounts=accounts)
    return query(_WITH_SNAPSHOT, accounts=accounts, missing=missing)
