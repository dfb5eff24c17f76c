"""The settings of the store, of workers and of telemetry."""

from typing import Annotated, Literal

from pydantic import Field, SecretStr, field_validator

from waystation.core.app.tracing_settings import TracingSettings
from waystation.core.errors import InvalidUrl
from waystation.core.settings.section import Duration, Section, wanted
from waystation.core.store.connection import address
from waystation.core.store.connection.durable import Durability


class StoreSettings(Section):
    """Where everything is kept."""

    url: SecretStr | None = None
    """Address of a Redis, Valkey or Dragonfly server; without one, an embedded server is used."""
    connect_timeout: Annotated[float, Duration(at_least="1ms")] = 5.0
    """How long to wait for a connection."""
    call_timeout: Annotated[float, Duration(at_least="1ms")] = 10.0
    """How long to wait for an answer; calls that block on purpose have their own limit."""
    wait: Annotated[float, Duration()] = 300.0
    """How long a worker, a server or an exporter waits at its start for a store that is away."""
    max_connections: Annotated[int, Field(ge=1)] = 50
    """How many connections one process may open; callers beyond it wait."""
    durability: Durability = Durability.PRIMARY
    """Who must have what is added before it counts as added: the primary, or a replica, too."""
    replica_timeout: Annotated[float, Duration(at_least="1ms")] = 1.0
    """How long to wait for that replica."""

    @field_validator("url")
    @classmethod
    def _can_be_read(cls, url: SecretStr | None) -> SecretStr | None:
        try:
            address.parse(url.get_secret_value() if url else "redis://host")
        except InvalidUrl:
            raise wanted(address.FORMS) from None
        return url


class WorkerSettings(Section):
    """How a worker works unless its line or the command says otherwise."""

    concurrency: Annotated[int, Field(ge=1, le=10_000)] = 1
    """How many pieces of work one worker holds at a time."""
    lease: Annotated[float, Duration(at_least="1s")] = 30.0
    """How long work belongs to a worker that is not heard of again."""
    grace: Annotated[float, Duration()] = 30.0
    """How long work may take to finish after a stop was asked for; the rest is handed back."""
    watchdog: Annotated[float, Duration(at_least="1s")] = 60.0
    """How long the event loop may stand still before the process ends itself."""


class TelemetrySettings(Section):
    """What can be seen from outside."""

    log_level: Literal["debug", "info", "warning", "error", "critical"] = "info"
    """The least important message that is still written."""
    log_format: Literal["auto", "json", "console"] = "auto"
    """JSON lines, lines for people, or whichever suits where they go."""
    redact: Literal["off", "ours", "all"] = "off"
    """Whose lines are written without what errors and arguments say: only ours, or all."""
    metrics_host: str = "127.0.0.1"
    """The interface that the metrics are served on."""
    metrics_port: Annotated[int, Field(ge=0, le=65_535)] | None = None
    """The port that Prometheus reads; 0 takes a free one, and without one nothing is served."""
    tracing: TracingSettings = TracingSettings()


CORE: dict[str, type[Section]] = {
    "store": StoreSettings,
    "worker": WorkerSettings,
    "telemetry": TelemetrySettings,
}
"""The sections that every product shares."""
