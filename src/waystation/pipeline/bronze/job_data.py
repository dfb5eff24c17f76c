"""What a job was, by product: after which events it is read, from where, and what it has left.

A visitor of a waiting room has no data.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from waystation.bullmq.redis.keys import QueueKeys
from waystation.core.events import EventName, Product
from waystation.pipeline.bronze.payload_columns import FIELDS, NOTHING, Left, Values, left_in_fields
from waystation.routing.redis.keys import RoutingKeys


class JobData(msgspec.Struct, frozen=True, kw_only=True):
    """Where a product keeps what its jobs were."""

    product: str
    subject: bytes
    """Field of an event with the id of its job."""
    born: frozenset[bytes]
    """Events after which a job is read."""
    ended: frozenset[bytes] = frozenset()
    """Events after which it is read again: how it has ended is known, and it is still there."""
    last: frozenset[bytes]
    """Events that hold what a job was, because it is gone after them."""
    left: Left
    """What such an event says of it."""
    base: Callable[[str, str], str] | None = None
    """What the keys of jobs begin with, from prefix and queue; None where no job has a key."""
    command: bytes = b""
    """The command that reads a job, before its key."""
    arguments: bytes = b""
    """What comes after the key."""
    values: Callable[[Any], Values] = lambda reply: reply
    """What the reply says of it."""
    has_logs: bool = False


class _Routed(msgspec.Struct, rename="camel"):
    """The members of a job of routing that are kept, as they were written."""

    payload: msgspec.Raw = msgspec.Raw(b"{}")
    created_at: msgspec.Raw = msgspec.Raw(b"")


_read_routed = msgspec.json.Decoder(_Routed).decode


def _routed(raw: bytes | None) -> Values:
    """The payload of a job; the whole where it is no job."""
    if raw is None:
        return NOTHING
    try:
        job = _read_routed(raw)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return _values({b"data": raw})
    return _values({b"data": bytes(job.payload), b"timestamp": bytes(job.created_at)})


def _values(found: Mapping[bytes, bytes]) -> Values:
    return [found.get(name) for name in FIELDS]


def _names(*events: EventName) -> frozenset[bytes]:
    return frozenset(each.value.encode() for each in events)


def _bulk(*words: bytes) -> bytes:
    return b"".join(b"$%d\r\n%b\r\n" % (len(each), each) for each in words)


DATA: Mapping[str, JobData] = {
    each.product: each
    for each in (
        JobData(
            product=Product.BULLMQ.value,
            subject=b"jobId",
            born=_names(EventName.ADDED),
            ended=_names(EventName.COMPLETED, EventName.FAILED),
            last=_names(EventName.KEPT),
            left=left_in_fields,
            base=lambda prefix, queue: QueueKeys(queue, prefix=prefix).base,
            command=b"*%d\r\n" % (len(FIELDS) + 2) + _bulk(b"HMGET"),
            arguments=_bulk(*FIELDS),
            has_logs=True,
        ),
        # What is completed or cancelled loses its data in the same step.
        JobData(
            product=Product.ROUTING.value,
            subject=b"subject",
            born=_names(EventName.ADDED, EventName.FIRED),
            ended=_names(EventName.DEAD),
            last=_names(EventName.COMPLETED, EventName.CANCELLED),
            left=lambda said: _routed(said.get(b"data")),
            base=lambda prefix, _: RoutingKeys(prefix).data_prefix,
            command=b"*2\r\n" + _bulk(b"GET"),
            values=_routed,
        ),
        # The jobs are elements of lists, so none is found by its id.
        JobData(
            product=Product.FILES.value,
            subject=b"subject",
            born=frozenset(),
            last=_names(EventName.COMPLETED, EventName.DEAD),
            left=lambda said: _values({b"data": said[b"data"]} if b"data" in said else {}),
        ),
    )
}
"""What is read of jobs, by product."""
