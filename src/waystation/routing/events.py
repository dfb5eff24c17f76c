"""Events: what happens to jobs and workers, as it happens."""

from waystation.core.events import StreamEvent


class Event(StreamEvent, frozen=True, kw_only=True):
    """One thing that happened to one job, or to a worker."""

    @property
    def type(self) -> str:
        """The job's type; empty when it happened to a worker."""
        return self.queue
