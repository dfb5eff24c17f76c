"""The settings of bullmq."""

from typing import Annotated

from waystation.bullmq.payloads.options import ABOVE, PayloadOptions
from waystation.bullmq.redis.keys import PREFIX
from waystation.bullmq.worker import WorkerOptions
from waystation.core.settings.section import Inherits, Secret, Section

A_WEEK = 7 * 24 * 60


class JobPayloadSettings(Section, frozen=True, kw_only=True):
    """What becomes of data and results before they are stored."""

    keys: Secret | None = None
    """Key ring that encrypts them: `name=base64`, separated by commas; the first one encrypts, the
    others still decrypt."""
    blobs: str | None = None
    """Directory for those above a size."""
    above: int = ABOVE
    """Bytes of JSON above which a payload is kept there."""

    def __post_init__(self) -> None:
        self.options()

    def options(self) -> PayloadOptions | None:
        """The same for a queue or a worker; None when nothing is to be done."""
        if not self.keys and self.blobs is None:
            return None
        return PayloadOptions(keys=self.keys, blobs=self.blobs, above=self.above)


class BullmqSettings(Section, frozen=True, kw_only=True):
    """Queues that Node's BullMQ shares."""

    prefix: str = PREFIX
    """The prefix of every key, the same as in Node; braces make it a hash tag."""
    payloads: JobPayloadSettings = JobPayloadSettings()
    """What becomes of data and results before they are stored."""
    worker: Annotated[WorkerOptions, Inherits("worker")] = WorkerOptions(metrics_points=A_WEEK)
    """The options of a worker; what is left out comes from the section worker."""
