"""BullMQ in Python: what Node writes we read, and the other way round."""

from .event import QueueEvent
from .events import QueueEvents, QueueEventsProducer
from .finishes import JobFailed

__all__ = ["JobFailed", "QueueEvent", "QueueEvents", "QueueEventsProducer"]
