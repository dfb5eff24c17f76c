"""One span per piece of work, through OpenTelemetry's API, and next to free when nobody listens.

Where work came from travels as a carrier: the headers of the W3C's Trace Context in a mapping.
"""

from collections.abc import Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import repeat
from typing import Protocol, TypeAlias

from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from waystation.core import codec
from waystation.core.errors import Malformed

_W3C = TraceContextTextMapPropagator()

Ids: TypeAlias = tuple[str, str]
"""A trace and a span in it, as hexadecimal text."""


class WorkSpan(Protocol):
    """The span of one piece of work while it is being done."""

    def ended(self, outcome: str, error: BaseException | None = None) -> None:
        """Say how it went; without this a clean end is `completed` and an error is `failed`."""
        ...


class Traces:
    """Makes spans if OpenTelemetry was set up before, and does nothing otherwise."""

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        provider = provider or trace.get_tracer_provider()
        silent = (trace.ProxyTracerProvider, trace.NoOpTracerProvider)
        self.enabled = not isinstance(provider, silent)
        self._tracer = provider.get_tracer("waystation")

    def span_for(
        self, queue: str, job_id: str, *, carrier: Mapping[str, str] | None = None
    ) -> AbstractContextManager[WorkSpan]:
        """The span around one attempt, continuing the carrier's trace or beginning a new one."""
        return self._span(queue, job_id, carrier or {}) if self.enabled else _SILENCE

    @contextmanager
    def producing(self, queues: Iterable[str]) -> Generator[Iterable[Ids | None]]:
        """A span for each piece of work on its way to a queue, and their ids to send along."""
        if not self.enabled:
            yield repeat(None)
            return
        spans = [
            self._tracer.start_span(
                f"enqueue {queue}", kind=trace.SpanKind.PRODUCER, attributes={"queue": queue}
            )
            for queue in queues
        ]
        try:
            yield [_ids_of(span) for span in spans]
        finally:
            for span in spans:
                span.end()

    @contextmanager
    def _span(self, queue: str, job_id: str, carrier: Mapping[str, str]) -> Generator[WorkSpan]:
        # Recording the exception would put its message, and with it a payload, into the trace.
        with self._tracer.start_as_current_span(
            f"process {queue}",
            context=_W3C.extract(carrier),
            kind=trace.SpanKind.CONSUMER,
            attributes={"queue": queue, "job_id": job_id},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            work = _LiveSpan(span)
            try:
                yield work
            except BaseException as error:
                work.end_if_untold("failed", error)
                raise
            work.end_if_untold("completed")


def carrier_from_ids(trace_id: str, span_id: str) -> dict[str, str]:
    """The carrier for a trace given as two hexadecimal ids; ids that are none begin a new trace."""
    return {"traceparent": f"00-{trace_id.lower()}-{span_id.lower()}-01"}


def carrier_from_text(text: str | bytes) -> dict[str, str]:
    """The carrier that BullMQ keeps as JSON in `tm`; text that is none begins a new trace."""
    try:
        return codec.decode(text, dict[str, str])
    except Malformed:
        return {}


def current_carrier() -> dict[str, str]:
    """What to send along with new work so that its trace goes on from here; may be empty."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier)
    return carrier


def current_ids() -> Ids | None:
    """The trace and span we are in; None outside of any."""
    return _ids_of(trace.get_current_span())


def _ids_of(span: trace.Span) -> Ids | None:
    context = span.get_span_context()
    if not context.is_valid:
        return None
    return trace.format_trace_id(context.trace_id), trace.format_span_id(context.span_id)


class _LiveSpan:
    def __init__(self, span: trace.Span) -> None:
        self._span = span
        self._told = False

    def ended(self, outcome: str, error: BaseException | None = None) -> None:
        self._told = True
        self._span.set_attribute("outcome", outcome)
        if error is not None:
            kind = type(error).__name__
            self._span.set_attribute("error_class", kind)
            self._span.set_status(trace.StatusCode.ERROR, kind)

    def end_if_untold(self, outcome: str, error: BaseException | None = None) -> None:
        if not self._told:
            self.ended(outcome, error)


class _SilentSpan:
    def ended(self, outcome: str, error: BaseException | None = None) -> None:
        pass


_SILENCE = nullcontext(_SilentSpan())
