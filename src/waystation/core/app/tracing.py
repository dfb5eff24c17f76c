"""Sends spans to an OpenTelemetry collector."""

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor


def send_to(endpoint: str) -> TracerProvider:
    """Let every span of this process go to the collector; shut the provider down at the end."""
    provider = TracerProvider(resource=Resource.create({"service.name": "waystation"}))
    exporter = OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return provider
