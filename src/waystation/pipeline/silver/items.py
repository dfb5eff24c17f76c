"""Items: one row for each job or file, from its first event to its last."""

from waystation.pipeline.silver.moves import ENDED, ENDS, STATES
from waystation.pipeline.silver.steps import IS_CLAIM
from waystation.pipeline.storage.sql import Frame, chosen, query, texts
from waystation.pipeline.tables import ITEMS

HAS_ENDED = f"state in {texts(ENDED)}"
"""Condition: an item is in a final state."""

# A retry and the wait after it share a millisecond: the wait counts. A job removed after its end
# keeps the state it ended in. An id that was used again was removed, with or without an event.
_ITEMS = f"""
with placed as (
    select *,
           {chosen("event", STATES)} as state,
           struct(told_at, seq) as place,
           struct(told_at, case when event in ('retry', 'stalled') then -1 else seq end) as turn,
           case when event not in ('removed', 'cancelled') then
               struct(told_at, case when event in ('retry', 'stalled') then -1 else seq end)
           end as turn_without_removal
    from {{steps}}
), folded as (
    select line, queue, subject, life,
           min_by(name, case when name is not null then place end) as name,
           min_by(`at`, case when birth then place end) as added_at,
           min(`at`) as first_at,
           min(case when {IS_CLAIM} then `at` end) as started_at,
           max_by(state, turn) as last_state,
           max_by(`at`, turn) as last_at,
           max_by(state, turn_without_removal) as state_before,
           max_by(`at`, turn_without_removal) as before_at,
           cast(count_if({IS_CLAIM}) as int) as attempts,
           cast(count_if(event = 'stalled') as int) as stalls,
           cast(greatest(0, count_if(event = 'completed') - 1 - count_if(again)) as int)
               as duplicates,
           max(told_at) as last_told_at,
           min_by(_corrupt, case when _corrupt is not null then place end) as odd
    from placed
    group by line, queue, subject, life
), lives as (
    select *,
           case when state_before in {texts(ENDS)} then state_before else last_state end as state,
           case when state_before in {texts(ENDS)} then before_at else last_at end as state_at,
           max(life) over (partition by line, queue, subject) as newest
    from folded
), held as (
    select line, queue, subject, life,
           sum(wait_ms) as wait_ms,
           sum(run_ms) as run_ms,
           cast(count_if(outcome = 'retried') as int) as retries,
           max_by(reason, case when reason is not null then attempt end) as reason,
           max_by(fingerprint, case when fingerprint is not null then attempt end) as fingerprint
    from {{attempts}}
    group by line, queue, subject, life
), ended as (
    select *, case when {HAS_ENDED} then state_at end as ended_at
    from lives
), timed as (
    select *, unix_millis(ended_at) - unix_millis(added_at) as total
    from ended
)
select timed.line, timed.queue, timed.subject, timed.life, name, added_at, started_at, ended_at,
       case when timed.life = newest or {HAS_ENDED} then state else 'removed' end as state,
       attempts,
       coalesce(retries, 0) as retries,
       stalls,
       cast(wait_ms as bigint) as wait_ms,
       cast(run_ms as bigint) as run_ms,
       case when total >= 0 then total end as total_ms,
       reason, fingerprint, duplicates, last_told_at,
       coalesce(odd, case when total < 0 then 'it ended before it was added' end) as _corrupt,
       to_date(coalesce(added_at, first_at)) as `date`
from timed
left join held
  on timed.line = held.line and timed.queue = held.queue
     and timed.subject = held.subject and timed.life = held.life
"""


def items(steps: Frame, attempts: Frame) -> Frame:
    """One row for each life, from steps with lives and their attempts."""
    return query(_ITEMS, steps=steps, attempts=attempts)


def rows(items: Frame) -> Frame:
    """The columns of the table `items`."""
    return items.select(ITEMS.names)
