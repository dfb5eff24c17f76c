"""The job as its parts see it: what steps and dependencies may rely on."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from waystation.bullmq.options import StoredOptions
from waystation.bullmq.redis.keys import JobKeys, QueueKeys
from waystation.bullmq.states import JobState
from waystation.core.store.script import Client


class QueueRef(NamedTuple):
    """The queue a job lives in, and the way to it."""

    client: Client
    keys: QueueKeys
    progressed: Callable[[Any, Any], None] | None = None
    """Told of a job and its new progress, where the job is held by a worker."""


class WholeJob(Protocol):
    """A job with all its parts."""

    id: str
    token: str | None

    @property
    def queue(self) -> QueueRef:
        """The queue it lives in."""
        ...

    @property
    def keys(self) -> JobKeys:
        """Where it is kept."""
        ...

    @property
    def opts(self) -> StoredOptions:
        """The options the producer chose."""
        ...

    @property
    def deduplication_id(self) -> str | None:
        """What it shares with jobs it stands for."""
        ...

    def remember(self, fields: Mapping[bytes, bytes]) -> None:
        """Keep what has just been written to the store."""
        ...

    async def state(self) -> JobState:
        """Where the job is now."""
        ...
