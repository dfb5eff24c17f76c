"""Open work in SQL: attempts that run and jobs that have not ended, from the table `open`.

Spark folds the same steps in `silver`; a test compares both.
"""

from collections.abc import Mapping, Sequence

from waystation.pipeline.silver.moves import ENDED, OUTCOMES, READY, STATES

_ATTEMPTS = """
with with_lives as (
    select *, event = 'active' as takes, takes or birth as another,
           sum(takes::int) over so_far as taken,
           sum(birth::int) over so_far as life
    from {steps}
    window so_far as (partition by line, queue, subject order by told_at, seq
                      rows unbounded preceding)
), surrounded as (
    select line, queue, subject, life, takes, worker, "at" as started_at,
           taken - coalesce(last_value(case when birth then taken end ignore nulls) over so_far, 0)
               as attempt,
           lag(case when takes or event in {ready}
               then {{'is': case when not takes then "at" end}} end ignore nulls)
               over turn as ready,
           lead({{'is': case when not another then "at" end}}) over turn as "end",
           lead(case when another or event in {ends}
                then {{'is': case when not another then event end}} end ignore nulls)
               over turn as told,
           reason,
           lead(case when another or reason is not null
                then {{'is': case when not another then reason end}} end ignore nulls)
               over turn as saying,
           _corrupt,
           lead(case when another or _corrupt is not null
                then {{'is': case when not another then _corrupt end}} end ignore nulls)
               over turn as odd
    from with_lives
    window turn as (partition by line, queue, subject order by told_at, seq),
           so_far as (partition by line, queue, subject order by told_at, seq
                      rows unbounded preceding)
    qualify takes
), ended as (
    select * exclude (ready, told, reason, odd), ready['is'] as ready_at, "end"['is'] as ended_at,
           coalesce({outcomes}[told['is']],
                    case when ended_at is null then 'open'
                         when worker is null then 'retried' else 'returned' end) as outcome,
           case when outcome in ('failed', 'retried')
                then coalesce(reason, saying['is'], '') end as reason,
           epoch_ms(started_at) - epoch_ms(ready_at) as wait,
           epoch_ms(ended_at) - epoch_ms(started_at) as run,
           coalesce(_corrupt, odd['is']) as odd
    from surrounded
)
select line, queue, subject, life, attempt::int as attempt, worker, ready_at, started_at, ended_at,
       case when wait >= 0 then wait end as wait_ms, case when run >= 0 then run end as run_ms,
       outcome, null::varchar as error_class, null::varchar as fingerprint, reason,
       coalesce(odd, case when wait < 0 then 'it was started before it was ready'
                          when run < 0 then 'it ended before it was started' end) as _corrupt,
       started_at::date as date
from ended
"""

_ITEMS = """
with with_lives as (
    select *, sum(birth::int) over (partition by line, queue, subject order by told_at, seq
                                    rows unbounded preceding) as life,
           {{'told_at': told_at,
             'seq': case when event in ('retry', 'stalled') then -1 else seq end}} as turn,
           {{'state': {states}[event], 'at': "at"}} as now
    from {steps}
), lives as (
    select line, queue, subject, life, arg_min(name, (told_at, seq)) filter (name is not null)
               as name,
           arg_min("at", (told_at, seq)) filter (birth) as added_at,
           min("at") as first_at, min("at") filter (event = 'active') as started_at,
           arg_max(now, turn) as all_moves,
           arg_max(now, turn) filter (event not in ('removed', 'cancelled')) as but_removal,
           case when but_removal['state'] in ('completed', 'failed') then but_removal
                else all_moves end as last,
           count_if(event = 'active')::int as attempts,
           count_if(event = 'stalled')::int as stalls,
           greatest(0, count_if(event = 'completed') - 1 - count_if(again))::int as duplicates,
           max(told_at) as last_told_at,
           arg_min(_corrupt, (told_at, seq)) filter (_corrupt is not null) as odd
    from with_lives group by all
), held as (
    select line, queue, subject, life, sum(wait_ms)::bigint as wait_ms,
           sum(run_ms)::bigint as run_ms, count_if(outcome = 'retried')::int as retries,
           arg_max(reason, attempt) filter (reason is not null) as reason
    from {attempts} group by all
), judged as (
    select * exclude (last), last['state'] as state,
           case when state in {ended} then last['at'] end as ended_at,
           epoch_ms(ended_at) - epoch_ms(added_at) as total
    from lives left join held using (line, queue, subject, life)
)
select line, queue, subject, name, added_at, started_at, ended_at, state, attempts,
       coalesce(retries, 0) as retries, stalls, wait_ms, run_ms,
       case when total >= 0 then total end as total_ms, reason, null::varchar as fingerprint,
       duplicates, last_told_at,
       coalesce(odd, case when total < 0 then 'it ended before it was added' end) as _corrupt,
       coalesce(added_at, first_at)::date as date
from judged
"""


def running_attempts(steps: str) -> str:
    """The query for the attempts of open work, from a relation of steps."""
    return _ATTEMPTS.format(
        steps=steps, ready=texts(READY), ends=texts(tuple(OUTCOMES)), outcomes=mapping(OUTCOMES)
    )


def unfinished_items(steps: str, attempts: str) -> str:
    """The query for jobs and files that have not ended, from their steps and attempts."""
    return _ITEMS.format(steps=steps, attempts=attempts, states=mapping(STATES), ended=texts(ENDED))


def texts(values: Sequence[str]) -> str:
    """Plain texts as a list of SQL."""
    inner = ", ".join(f"'{each}'" for each in values)
    return f"({inner})"


def mapping(values: Mapping[str, str]) -> str:
    """Plain texts by others as a map of SQL."""
    inner = ", ".join(f"'{key}': '{value}'" for key, value in values.items())
    return f"map {{{inner}}}"
