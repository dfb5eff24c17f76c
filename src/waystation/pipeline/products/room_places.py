"""Places in a waiting room as the ledger counts them."""

from collections.abc import Iterator
from typing import Any

from waystation.core.events import Line
from waystation.pipeline.storage.sql import Frame, query, texts
from waystation.waitingroom.redis.keys import RoomKeys

ENDS = ("left", "expired", "completed", "cancelled")
"""Events after which a visitor has no place any more."""
REMOVED = "removed"
"""The event after which an operator has taken the place away."""


_PLACES = f"""
with folded as (
    select line, queue, subject,
           min(case when event in ('waiting', 'delayed') then `at` end) as added_at,
           max_by(event, struct(told_at, seq)) as last_event,
           max(told_at) as last_told_at,
           min(`date`) as `date`
    from {{events}}
    where line = '{Line.WAITINGROOM.value}' and subject is not null and event <> 'refused'
    group by line, queue, subject
)
select line, queue, subject, added_at, last_told_at, `date`,
       case when last_event in {texts(ENDS)} then 'completed'
            when last_event = '{REMOVED}' then 'removed'
            else 'waiting' end as state,
       cast(0 as int) as duplicates
from folded
"""


def places(events: Frame) -> Frame:
    """One row for each place in a waiting room, open or ended."""
    return query(_PLACES, events=events)


def open_ids(client: Any, _prefix: str, queue: str) -> Iterator[str]:
    """Ids of visitors who wait, are admitted, were late, or are inside."""
    keys = RoomKeys(queue)
    for key in (keys.prequeue, keys.positions, keys.admitted, keys.missed, keys.recovered):
        for each, _ in client.zscan_iter(key, count=1000):
            yield each.decode("utf-8", "backslashreplace")
    for each in client.sscan_iter(keys.sessions, count=1000):
        yield each.decode("utf-8", "backslashreplace")
