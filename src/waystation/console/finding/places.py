"""Places: where the products keep their queues, and the names of those queues."""

import msgspec

from waystation.bullmq.redis.prefixes import Prefixes
from waystation.core.events import Line
from waystation.files import Layout
from waystation.routing.redis.keys import NAMESPACE


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """The prefixes and key names that the products use."""

    bullmq: Prefixes = Prefixes()
    routing: str = NAMESPACE
    files: Layout = Layout()


class QueueName(msgspec.Struct, frozen=True):
    """One queue of one product: a queue of BullMQ, a type of job, a priority, or a room."""

    product: Line
    name: str

    def __str__(self) -> str:
        return f"{self.product}/{self.name}"
