"""Where spans go; the same for every line."""

from pydantic import field_validator

from waystation.core.settings.section import Section, wanted


class TracingSettings(Section):
    """Spans for every piece of work, sent by OpenTelemetry."""

    enabled: bool = False
    """Whether spans are recorded and sent."""
    endpoint: str = "http://127.0.0.1:4318"
    """Address of the collector (OTLP over HTTP)."""

    @field_validator("endpoint")
    @classmethod
    def _is_an_address(cls, endpoint: str) -> str:
        if not endpoint.startswith(("http://", "https://")):
            raise wanted("an address such as http://collector:4318")
        return endpoint
