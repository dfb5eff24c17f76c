from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NoOpTracerProvider, SpanKind, StatusCode

from waystation.core import codec
from waystation.core.telemetry.traces import (
    Traces,
    carrier_from_ids,
    carrier_from_text,
    current_carrier,
    current_ids,
)

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"


class Recording:
    """Traces into memory."""

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._spans))
        self.traces = Traces(provider)

    def only_span(self) -> ReadableSpan:
        (span,) = self._spans.get_finished_spans()
        return span


@pytest.fixture
def recording() -> Recording:
    return Recording()


def trace_id(span: ReadableSpan) -> str:
    assert span.context
    return f"{span.context.trace_id:032x}"


def attributes(span: ReadableSpan) -> dict[str, object]:
    return dict(cast(dict[str, object], span.attributes))


def test_work_is_one_span_with_queue_job_and_outcome(recording: Recording) -> None:
    with recording.traces.span_for("mail", "7"):
        pass
    span = recording.only_span()
    assert (span.name, span.kind) == ("process mail", SpanKind.CONSUMER)
    assert attributes(span) == {"queue": "mail", "job_id": "7", "outcome": "completed"}


def test_an_outcome_that_is_told_wins(recording: Recording) -> None:
    with recording.traces.span_for("mail", "7") as span:
        span.ended("returned")
    assert attributes(recording.only_span())["outcome"] == "returned"


def test_a_failure_is_told_by_its_class_and_never_by_its_message(recording: Recording) -> None:
    with pytest.raises(ValueError, match="canary"), recording.traces.span_for("mail", "7"):
        raise ValueError("canary")
    span = recording.only_span()
    assert attributes(span)["outcome"] == "failed"
    assert attributes(span)["error_class"] == "ValueError"
    assert span.status.status_code is StatusCode.ERROR
    assert "canary" not in span.to_json()


@pytest.mark.parametrize(
    "carrier",
    [
        carrier_from_ids(TRACE, SPAN),
        carrier_from_ids(TRACE.upper(), SPAN.upper()),
        carrier_from_text(f'{{"traceparent":"00-{TRACE}-{SPAN}-01"}}'),
    ],
)
def test_a_trace_that_came_with_the_work_goes_on(
    recording: Recording, carrier: dict[str, str]
) -> None:
    with recording.traces.span_for("mail", "7", carrier=carrier):
        pass
    span = recording.only_span()
    assert trace_id(span) == TRACE
    assert span.parent
    assert f"{span.parent.span_id:016x}" == SPAN


@given(st.text(), st.text(), st.text())
def test_whatever_is_no_trace_begins_a_new_one(one: str, other: str, text: str) -> None:
    for carrier in (carrier_from_ids(one, other), carrier_from_text(text)):
        recording = Recording()
        with recording.traces.span_for("mail", "7", carrier=carrier):
            pass
        assert recording.only_span().parent is None


def test_two_pieces_of_work_have_two_traces(recording: Recording) -> None:
    with recording.traces.span_for("mail", "1"):
        first = current_ids()
    with recording.traces.span_for("mail", "2"):
        second = current_ids()
    assert first
    assert second
    assert first[0] != second[0]


def test_work_made_within_work_continues_its_trace(recording: Recording) -> None:
    with recording.traces.span_for("mail", "7", carrier=carrier_from_ids(TRACE, SPAN)):
        ids = current_ids()
        text = codec.encode(current_carrier())
    assert ids
    assert ids[0] == TRACE
    assert carrier_from_text(text) == carrier_from_ids(*ids)


def test_outside_of_any_work_there_is_nothing_to_send_along() -> None:
    assert current_ids() is None
    assert current_carrier() == {}


@pytest.mark.parametrize("traces", [Traces(), Traces(NoOpTracerProvider())])
def test_without_an_sdk_nothing_is_made(traces: Traces) -> None:
    assert not traces.enabled
    with traces.span_for("mail", "7", carrier=carrier_from_ids(TRACE, SPAN)) as span:
        span.ended("completed")
        assert current_ids() is None
