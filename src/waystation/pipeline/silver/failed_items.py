"""Failed items: one row for each job or file and each kind of failure that it had.

Failures are counted from these rows, which only grow with what failed, and not from all attempts.
"""

from waystation.pipeline.storage.sql import Frame, query

_FAILING = """
with placed as (
    select *, max(attempt) over (partition by line, queue, subject, life) as last_attempt
    from {attempts}
), kinds as (
    select line, queue, subject, life, fingerprint,
           count(*) as failed,
           count_if(outcome = 'retried' or attempt < last_attempt) as retried,
           min(started_at) as first_at,
           max(started_at) as last_at,
           min(reason) as reason,
           min(error_class) as error_class
    from placed
    where fingerprint is not null
    group by line, queue, subject, life, fingerprint
), good as (
    select line, queue, subject, life, max(started_at) as good_at
    from {attempts}
    where outcome = 'completed'
    group by line, queue, subject, life
)
select kinds.*, retried > 0 and coalesce(good_at > first_at, false) as recovered
from kinds
left join good on kinds.line = good.line and kinds.queue = good.queue
                  and kinds.subject = good.subject and kinds.life = good.life
"""

_OF_ITEMS = """
select failing.*, items.last_told_at, items.state, items.attempts, items.duplicates, items.`date`
from {failing} as failing
join {items} as items on failing.line = items.line and failing.queue = items.queue
                         and failing.subject = items.subject and failing.life = items.life
"""


def failing(attempts: Frame) -> Frame:
    """One row for each life and kind of failure, from attempts with lives."""
    return query(_FAILING, attempts=attempts)


def failed_items(attempts: Frame, items: Frame) -> Frame:
    """The rows of the table: those of the attempts of these items, each with its item's version."""
    return query(_OF_ITEMS, failing=failing(attempts), items=items)
