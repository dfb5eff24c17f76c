"""Where products keep events and jobs, known without anything else of a product."""

from collections.abc import Callable, Mapping

import msgspec

from waystation.bullmq.redis.keys import PREFIX as BULLMQ
from waystation.core.errors import InvalidOption
from waystation.core.events import Product
from waystation.routing.redis.keys import NAMESPACE as ROUTING

# Not imported: the options of files bring the runtime with them. A test compares both.
FILES = "jobqueue"
ALL_QUEUES = "*"
"""The queue of a stream that all queues of a product share."""


class StreamNames(msgspec.Struct, frozen=True):
    """How a product names its event streams."""

    prefix: str
    """Default prefix of its keys."""
    key: Callable[[str, str], str]
    """The key of a queue's event stream, from its prefix and its name."""

    @property
    def has_one_stream(self) -> bool:
        """Whether all queues of the product share one stream."""
        return "\0" not in self.key(self.prefix, "\0")


STREAM_NAMES: Mapping[str, StreamNames] = {
    Product.BULLMQ.value: StreamNames(BULLMQ, lambda prefix, queue: f"{prefix}:{queue}:events"),
    Product.ROUTING.value: StreamNames(ROUTING, lambda prefix, _: f"{prefix}:events:stream"),
    Product.FILES.value: StreamNames(FILES, lambda prefix, _: f"{prefix}:events"),
    Product.WAITINGROOM.value: StreamNames("queue", lambda prefix, room: f"{prefix}:{room}:events"),
}


def streams_of(product: str) -> StreamNames:
    """The names of one product's streams."""
    if product not in STREAM_NAMES:
        raise InvalidOption(f"product must be one of {', '.join(STREAM_NAMES)}, got {product!r}")
    return STREAM_NAMES[product]


BULLMQ_STATES: Mapping[str, str] = {
    "wait": "list",
    "paused": "list",
    "active": "list",
    "prioritized": "zset",
    "delayed": "zset",
    "waiting-children": "zset",
    "completed": "zset",
    "failed": "zset",
}
"""States of a queue of BullMQ, and the type of the key that holds the ids of each."""

BULLMQ_FIELDS: Mapping[str, str] = {
    "name": "name",
    "data": "data",
    "options": "opts",
    "added_ms": "timestamp",
    "delay_ms": "delay",
    "priority": "priority",
    "attempts": "atm",
    "started_ms": "processedOn",
    "ended_ms": "finishedOn",
    "worker": "pb",
    "reason": "failedReason",
    "result": "returnvalue",
}
"""Columns of a job of BullMQ, and the fields of its hash that they are read from."""
BULLMQ_NUMBERS = ("added_ms", "delay_ms", "priority", "attempts", "started_ms", "ended_ms")
