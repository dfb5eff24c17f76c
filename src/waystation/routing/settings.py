"""The settings of the routing line."""

from typing import Annotated

from pydantic import Field, field_validator

from waystation.core.errors import InvalidOption
from waystation.core.settings.section import Duration, Section, wanted


class SchedulerSettings(Section):
    """The upkeep, done by one process at a time."""

    enabled: bool = True
    """Whether workers stand for election, too; off where `waystation routing scheduler` runs."""
    tick: Annotated[float, Duration(at_least="10ms")] = 1.0
    """How often delayed jobs and schedules are looked at."""
    recover: Annotated[float, Duration(at_least="10ms")] = 5.0
    """How often jobs are taken back from workers that fell silent."""
    mend: Annotated[float, Duration(at_least="10ms")] = 30.0
    """How often counts, index and registry are put right."""
    term: Annotated[float, Duration(at_least="1s")] = 30.0
    """How long a leader that is not heard of again keeps the lead."""
    max_stalls: Annotated[int, Field(ge=0)] = 3
    """How many workers may fall silent over one job before it is given up."""
    forget_workers: Annotated[float, Duration(at_least="30s")] = 300.0
    """How long a silent worker stays in the registry."""


class RoutingSettings(Section):
    """Jobs that ask for a kind of worker."""

    namespace: str = "bridge"
    """What every key starts with; braces make it a hash tag, as a cluster needs it."""
    server_id: str | None = None
    """The name of this worker; without one, its host, process and a few random letters."""
    stack: str = "python"
    """What this worker's handlers are written in, or run on."""
    region: str = ""
    """Where this worker is."""
    capabilities: tuple[str, ...] = ()
    """What this worker can do, such as gpu, video:*."""
    scheduler: SchedulerSettings = SchedulerSettings()

    @field_validator("server_id")
    @classmethod
    def _can_be_registered(cls, server_id: str | None) -> str | None:
        from waystation.routing.redis.keys import checked_server_id

        try:
            return checked_server_id(server_id) if server_id is not None else None
        except InvalidOption:
            raise wanted(
                "a name without spaces, colons and quotes, other than active and heartbeat"
            ) from None

    @field_validator("namespace")
    @classmethod
    def _can_start_keys(cls, namespace: str) -> str:
        from waystation.routing.redis.keys import RoutingKeys

        try:
            RoutingKeys(namespace)
        except InvalidOption:
            raise wanted("a name without colons, and braces around one part at most") from None
        return namespace
