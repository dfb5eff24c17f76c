"""The sections that every product shares: the store, workers and telemetry."""

from typing import Annotated, Literal

import msgspec

from waystation.core.durations import Seconds
from waystation.core.errors import InvalidOption
from waystation.core.runtime.worker import WorkerOptions
from waystation.core.settings.section import Section
from waystation.core.store.settings import StoreSettings

__all__ = ["CORE", "StoreSettings", "TelemetrySettings", "TracingSettings", "WorkerSettings"]

LogLevel = Literal["debug", "info", "warning", "error", "critical"]
Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]


class WorkerSettings(WorkerOptions, frozen=True, kw_only=True):
    """Defaults for the workers of every product; a product's own section comes first."""

    watchdog: Annotated[Seconds, msgspec.Meta(ge=1)] = 60.0
    """How long the event loop may be blocked before the process ends itself."""


class TracingSettings(Section, frozen=True, kw_only=True):
    """Spans for every job, sent by OpenTelemetry."""

    enabled: bool = False
    """Whether spans are recorded and sent."""
    endpoint: str = "http://127.0.0.1:4318"
    """Address of the collector (OTLP over HTTP)."""

    def __post_init__(self) -> None:
        if not self.endpoint.startswith(("http://", "https://")):
            raise InvalidOption(
                f"endpoint must be an address such as http://collector:4318, got {self.endpoint!r}"
            )


class TelemetrySettings(Section, frozen=True, kw_only=True):
    """Logs, metrics and traces."""

    log_level: LogLevel = "info"
    """Messages below this level are not written."""
    log_format: Literal["auto", "json", "console"] = "auto"
    """JSON lines, lines for people, or whichever suits where they go."""
    redact: Literal["off", "ours", "all"] = "off"
    """Write log lines without the texts of errors and arguments: only our own lines, or all."""
    metrics_host: str = "127.0.0.1"
    """The interface that the metrics are served on."""
    metrics_port: Port | None = None
    """The port that Prometheus reads; 0 takes a free one, and without one nothing is served."""
    tracing: TracingSettings = TracingSettings()


CORE: dict[str, type[Section]] = {
    "store": StoreSettings,
    "worker": WorkerSettings,
    "telemetry": TelemetrySettings,
}
"""The sections that every product shares."""
