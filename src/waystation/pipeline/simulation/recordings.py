"""Recordings: the attempts of one queue, from the history."""

import datetime as dt

from waystation.core.errors import InvalidInput
from waystation.pipeline.ask.engine import Engine, quoted
from waystation.pipeline.simulation.replay import Attempt, Work, recorded
from waystation.pipeline.tables import ATTEMPTS, PAYLOADS

_ATTEMPTS = """
select job_id, attempt, epoch_us(ready_at) / 1e6, wait_ms / 1e3, run_ms / 1e3, {priority}
from attempts {join}
where {where} and wait_ms is not null and run_ms is not null
"""
_PRIORITIES = """
left join (
    select job_id, max(priority) as priority from payloads
    where product = {product} and queue = {queue} group by job_id
) using (job_id)
"""
_QUEUES = "select distinct product || '/' || queue from attempts order by 1 limit 11"


def recorded_attempts(
    engine: Engine,
    product: str,
    queue: str,
    *,
    since: dt.datetime | None = None,
    until: dt.datetime | None = None,
    with_priorities: bool = False,
) -> Work:
    """The attempts of a queue that have ended; refused where there are none."""
    engine.add_tables(named={ATTEMPTS.name, PAYLOADS.name} if with_priorities else {ATTEMPTS.name})
    where = [f"product = {quoted(product)}", f"queue = {quoted(queue)}"]
    if since:
        where += [f"date >= date '{since:%Y-%m-%d}'", f"ready_at >= timestamptz '{since}'"]
    if until:
        where.append(f"ready_at < timestamptz '{until}'")
    join = (
        _PRIORITIES.format(product=quoted(product), queue=quoted(queue)) if with_priorities else ""
    )
    priority = "coalesce(priority, 0)" if with_priorities else "0"
    query = _ATTEMPTS.format(priority=priority, join=join, where=" and ".join(where))
    rows = engine.select(query).rows
    if not rows:
        raise InvalidInput(_nothing(engine, f"{product}/{queue}"))
    return recorded(Attempt(*row) for row in rows)


def _nothing(engine: Engine, wanted: str) -> str:
    there = [name for (name,) in engine.select(_QUEUES).rows]
    if not there:
        return "the history has no attempts: `waystation pipeline run` stores them"
    names = ", ".join(there[:10]) + (", …" if len(there) > 10 else "")
    return f"the history has no attempts of {wanted} in that time; there are some of {names}"
