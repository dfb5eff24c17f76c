"""Following: what a run asks of the queues that it follows, longer streams and a mark.

A script that removes a job writes what it was into an event while there is such a mark, unless the
history has read it already. A mark expires, so that a history which is given up costs nothing.
"""

import time
from collections.abc import Mapping
from types import MappingProxyType

from waystation.bullmq.redis.keys import QueueKeys
from waystation.core.events import Product
from waystation.core.store import faults
from waystation.pipeline.products import product_named
from waystation.pipeline.sources.offsets import EventStream, Offset, StreamRange
from waystation.pipeline.sources.store import Store
from waystation.pipeline.sources.streams import EventOptions, Streams

FIELD = "history"
FOLLOWED_MS = 26 * 3_600_000
"""Milliseconds that a mark counts: a history that runs once a day keeps it alive."""
NOTHING_READ: Mapping[str, Offset] = MappingProxyType({})
STREAM_LIMIT = 100_000
"""Most entries of a stream while it is followed: about 9 MB."""
ROOM = 4
"""A stream may hold so many times what it got between two rounds, if that is more."""
MOST_ROOM = 10 * STREAM_LIMIT


def raise_stream_limits(
    events: EventOptions,
    *,
    keeps_payloads: bool = True,
    reached: Mapping[str, Offset] = NOTHING_READ,
    before: Mapping[str, Offset] = NOTHING_READ,
) -> int:
    """Let the streams grow longer before they are trimmed; returns how many were too short.

    A driver that restarts takes half a minute, and the events of that time must still be there, as
    must those that come while a round lasts: each stream has room for several times as many as it
    got since the offsets before. Where payloads are kept, the queues are marked as followed, up to
    the offsets reached.
    """
    streams = Streams(events)
    limits: dict[str, tuple[str, int]] = {}
    with faults.translated():
        for stream in streams.now():
            if (find := product_named(stream.product).stream_limit) is not None:
                key, field = find(*events.place_of(stream.product, stream.queue))
                limits[key] = field, _room(stream, reached, before)
        if keeps_payloads:
            _mark_followed(streams, events, reached)
        return _raise_limits(streams.store, limits)


def _room(stream: EventStream, reached: Mapping[str, Offset], before: Mapping[str, Offset]) -> int:
    """The most entries that a stream should hold."""
    here = reached.get(stream.key)
    grown = here and StreamRange(stream, before.get(stream.key, here), here).size
    return max(STREAM_LIMIT, min(ROOM * (grown or 0), MOST_ROOM))


def _mark_followed(streams: Streams, events: EventOptions, reached: Mapping[str, Offset]) -> None:
    queues: dict[str, int | None] = {}
    for stream in streams.now():
        prefix, queue = events.place_of(stream.product, stream.queue)
        if stream.product == Product.BULLMQ.value:
            here = reached.get(stream.key)
            queues[QueueKeys(queue, prefix=prefix).meta] = None if here is None else here.order[0]
        elif (key_of := product_named(stream.product).followed_key) is not None:
            key = key_of(prefix)
            streams.store.at(key).set(key, "1", px=FOLLOWED_MS)
    mark_followed(streams.store, queues)


def _raise_limits(store: Store, limits: Mapping[str, tuple[str, int]]) -> int:
    """Write the limits that are too low; returns how many were."""
    present = store.ask(
        {key: ("HGET", key, field) if field else ("GET", key) for key, (field, _) in limits.items()}
    )
    # Other programs may have written something else than a number there.
    low = {
        key: ("HSET", key, field, wanted) if field else ("SET", key, wanted)
        for key, (field, wanted) in limits.items()
        if not (present[key] and present[key].isdigit() and int(present[key]) >= wanted)
    }
    store.ask(low)
    return len(low)


def mark_followed(store: Store, queues: Mapping[str, int | None]) -> None:
    """Mark BullMQ queues as followed: by the key of their settings, how far they were stored."""
    unknown = [key for key, reached_ms in queues.items() if reached_ms is None]
    before = store.ask({key: ("HGET", key, FIELD) for key in unknown})
    until_ms = int(time.time() * 1000) + FOLLOWED_MS
    reached = {key: _number(before[key]) if ms is None else ms for key, ms in queues.items()}
    store.ask({key: ("HSET", key, FIELD, f"{ms}:{until_ms}") for key, ms in reached.items()})


def _number(mark: bytes | None) -> int:
    reached = (mark or b"0").partition(b":")[0]
    return int(reached) if reached.isdigit() else 0
