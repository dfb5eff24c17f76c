"""The state of every queue as of an instant, rebuilt from the events up to then."""

from collections.abc import Mapping

from waystation.pipeline.silver.moves import MOVES, STATES

NAME = "as_of"
"""The table function of SQL: `select * from as_of(timestamptz '2026-03-01 14:00:00+00')`."""
# A life begins with a birth; an id that was used again is the job of its last one. A job that was
# removed as it ended says so with `kept`, in the same step of the store.
_AS_OF = """
with moves as (
    select line, queue, subject, event, worker, "at",
           coalesce(fields['name'], fields['type']) as name,
           {{'told_at': told_at, 'seq': seq}} as place,
           {{'told_at': told_at,
             'seq': case when event in ('retry', 'stalled') then -1 else seq end}} as turn,
           coalesce(event in ('added', 'fired')
                    or (event = 'waiting' and attempt = 1 and fields['prev'] is null),
                    false) as birth
    from events
    where date <= instant::date and told_at <= instant and line <> 'waitingroom'
          and event in {moves} and subject <> ''
), births as (
    select line, queue, subject, max(place) as born from moves where birth group by all
), lives as (
    select line, queue, subject, arg_max(name, place) filter (name is not null) as name,
           max("at") filter (birth) as added_at,
           arg_max({{'state': {states}[event], 'since': "at", 'worker': worker}}, turn)
               filter (event <> 'kept') as last,
           count_if(event = 'active')::int as attempts, bool_or(event = 'kept') as is_gone
    from moves left join births using (line, queue, subject)
    where born is null or place >= born
    group by line, queue, subject
)
select line, queue, subject, name, last['state'] as state, last['since'] as since, added_at,
       attempts, case when last['state'] = 'active' then last['worker'] end as worker
from lives
where last['state'] <> 'removed' and not is_gone
"""


def macro() -> str:
    """The table function, over the view `events`."""
    query = _AS_OF.format(moves=(*MOVES, "kept"), states=_mapping(STATES))
    return f"macro {NAME}(instant) as table {query}"


def _mapping(values: Mapping[str, str]) -> str:
    inner = ", ".join(f"'{key}': '{value}'" for key, value in values.items())
    return f"map {{{inner}}}"
