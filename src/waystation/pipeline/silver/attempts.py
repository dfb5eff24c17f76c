"""Attempts: one row for each time a worker claimed a job or file; and workers by the hour."""

from waystation.pipeline.silver import fingerprints
from waystation.pipeline.silver.moves import OUTCOMES, READY
from waystation.pipeline.silver.steps import IN_ORDER, IS_CLAIM, UP_TO_HERE
from waystation.pipeline.storage.sql import Frame, chosen, query, texts
from waystation.pipeline.tables import ATTEMPTS


def _mark(value: str, where: str, *, until: str) -> str:
    """A value that other steps may read; an empty one where their search must stop."""
    return f"case when {where} or {until} then struct(case when not ({until}) then {value} end) end"


_ANOTHER = f"({IS_CLAIM} or birth)"

# A frame to the end would be read again for every step; lag and lead are not. A clock that was set
# back must not make a wait negative. BullMQ of Node names no worker and writes no event for a
# failed attempt, only a new wait.
_ATTEMPTS = f"""
with marked as (
    select *,
           case when birth then taken end as taken_at_birth,
           {_mark("`at`", f"event in {texts(READY)}", until=IS_CLAIM)} as ready_mark,
           {_mark("`at`", "true", until=_ANOTHER)} as end_mark,
           {_mark("event", f"event in {texts(OUTCOMES)}", until=_ANOTHER)} as ending_mark,
           {_mark("reason", "reason is not null", until=_ANOTHER)} as reason_mark,
           {_mark("_corrupt", "_corrupt is not null", until=_ANOTHER)} as odd_mark
    from {{steps}}
), neighbours as (
    select line, queue, subject, life, event, worker, reason, _corrupt, taken,
           `at` as started_at,
           last_value(taken_at_birth) ignore nulls over so_far as taken_before,
           lag(ready_mark) ignore nulls over turn as ready_mark,
           lead(end_mark) ignore nulls over turn as end_mark,
           lead(ending_mark) ignore nulls over turn as ending_mark,
           lead(reason_mark) ignore nulls over turn as reason_mark,
           lead(odd_mark) ignore nulls over turn as odd_mark
    from marked
    window turn as ({IN_ORDER}), so_far as ({UP_TO_HERE})
), claims as (
    select line, queue, subject, life, worker, started_at,
           cast(taken - coalesce(taken_before, 0) as int) as attempt,
           ready_mark.col1 as ready_at,
           end_mark.col1 as ended_at,
           {chosen("ending_mark.col1", OUTCOMES)} as ending,
           coalesce(reason, reason_mark.col1) as reason,
           coalesce(_corrupt, odd_mark.col1) as odd
    from neighbours
    where {IS_CLAIM}
), timed as (
    select *,
           unix_millis(started_at) - unix_millis(ready_at) as wait,
           unix_millis(ended_at) - unix_millis(started_at) as run,
           coalesce(ending, case when ended_at is null then 'open'
                                 when worker is null then 'retried'
                                 else 'returned' end) as outcome
    from claims
)
select line, queue, subject, life, attempt, worker, ready_at, started_at, ended_at,
       case when wait >= 0 then wait end as wait_ms,
       case when run >= 0 then run end as run_ms,
       outcome,
       case when outcome in ('failed', 'retried') then coalesce(reason, '') end as reason,
       coalesce(odd,
                case when wait < 0 then 'it was started before it was ready' end,
                case when run < 0 then 'it ended before it was started' end) as _corrupt,
       to_date(started_at) as `date`
from timed
"""

_WORKERS = """
select line, queue, worker, date_trunc('hour', started_at) as `hour`,
       count(*) as attempts,
       count_if(outcome = 'completed') as completed,
       count_if(outcome in ('failed', 'retried')) as failed,
       count_if(outcome = 'stalled') as stalled,
       coalesce(sum(run_ms), 0) as busy_ms,
       min(started_at) as first_at,
       max(greatest(started_at, ended_at)) as last_at
from {attempts}
where worker is not null
group by line, queue, worker, date_trunc('hour', started_at)
"""


def attempts(steps: Frame) -> Frame:
    """One row for each attempt, running ones included, from steps with lives.

    An attempt is the step that claims something, with what the steps around it say.
    """
    return fingerprints.with_fingerprints(query(_ATTEMPTS, steps=steps))


def rows(attempts: Frame) -> Frame:
    """The columns of the table `attempts`."""
    return attempts.select(ATTEMPTS.names)


def workers(attempts: Frame) -> Frame:
    """One row for each worker and hour."""
    return query(_WORKERS, attempts=attempts)
