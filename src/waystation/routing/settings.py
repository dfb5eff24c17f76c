"""The settings of routing."""

from typing import Annotated

from waystation.core.errors import InvalidOption
from waystation.core.runtime.worker import WorkerOptions
from waystation.core.settings.section import Inherits, Section
from waystation.routing.redis.keys import RoutingKeys, checked_server
from waystation.routing.upkeep import SchedulerOptions


class SchedulerSettings(SchedulerOptions, frozen=True, kw_only=True):
    """The maintenance of the queue, done by one process at a time, the leader."""

    enabled: bool = True
    """Whether workers can become leader; off where `waystation routing scheduler` runs."""


class RoutingSettings(Section, frozen=True, kw_only=True):
    """Jobs that ask for a kind of worker."""

    namespace: str = "bridge"
    """The prefix of every key; braces make it a hash tag, as a cluster needs it."""
    server: str | None = None
    """The name of this worker; default: its host, process and a few random letters."""
    stack: str = "python"
    """The language or runtime of this worker's handlers."""
    region: str = ""
    """Where this worker runs."""
    capabilities: tuple[str, ...] = ()
    """What this worker can do, such as gpu, video:*."""
    worker: Annotated[WorkerOptions, Inherits("worker")] = WorkerOptions()
    """How this worker works; what it leaves open comes from the section worker."""
    scheduler: SchedulerSettings = SchedulerSettings()

    def __post_init__(self) -> None:
        if self.server is not None:
            try:
                checked_server(self.server)
            except InvalidOption:
                raise InvalidOption(
                    "server must be a name without spaces, colons and quotes, "
                    f"other than active and heartbeat, got {self.server!r}"
                ) from None
        try:
            RoutingKeys(self.namespace)
        except InvalidOption:
            raise InvalidOption(
                "namespace must be a name without colons, and braces around one part at most, "
                f"got {self.namespace!r}"
            ) from None
