"""The settings of bullmq."""

from typing import Annotated

from waystation.bullmq.redis.keys import PREFIX
from waystation.bullmq.worker import WorkerOptions
from waystation.core.settings.section import Inherits, Section

A_WEEK = 7 * 24 * 60


class BullmqSettings(Section, frozen=True, kw_only=True):
    """Queues that Node's BullMQ shares."""

    prefix: str = PREFIX
    """The prefix of every key, the same as in Node; braces make it a hash tag."""
    worker: Annotated[WorkerOptions, Inherits("worker")] = WorkerOptions(metrics_points=A_WEEK)
    """The options of a worker; what is left out comes from the section worker."""
