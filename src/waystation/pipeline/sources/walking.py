"""How far a stream has come, and what lies some way on."""

from redis import Redis
from redis.exceptions import ResponseError

from waystation.core.store import faults
from waystation.pipeline.sources.offsets import Place
from waystation.pipeline.sources.scripts import StreamKey, reach

STEP = 2000
"""Entries that the server walks in one go when a batch is limited."""


def end_of(client: Redis, stream: str) -> Place | None:
    """How far a stream has come; None when there is no such stream."""
    try:
        told = client.xinfo_stream(stream)
    except ResponseError as error:
        if "no such key" in str(error).lower():
            return None
        raise faults.to_waystation_error(error) from error
    added = told.get("entries-added")
    return Place(_text(told["last-generated-id"]), None if added is None else int(added))


def some_way(client: Redis, stream: str, after: Place, many: int) -> Place:
    """The place that lies so many entries behind another, or at the end if that comes first."""
    here, walked = after, 0
    while walked < many:
        step = reach.call_sync(
            client, StreamKey(stream), after=here.id, count=min(STEP, many - walked)
        )
        if not step.many:
            break
        walked += step.many
        # Entries are lost from the oldest on, so those gone before the walk came are behind it.
        added = None if here.added is None else max(here.added, step.gone) + step.many
        here = Place(step.last, added)
    return here


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
