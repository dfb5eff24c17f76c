import io
import json
import logging
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider

from waystation.core.errors import InvalidInput, InvalidOption, LeaseLost
from waystation.core.telemetry import logs
from waystation.core.telemetry.allowlist import KEYS
from waystation.core.telemetry.traces import Traces, current_ids

CANARY = "canary-7f3a"
log = logs.get_logger("waystation.test")

canaries = st.recursive(
    st.just(CANARY) | st.just(CANARY.encode()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@pytest.fixture
def out() -> io.StringIO:
    stream = io.StringIO()
    logs.configure(stream=stream, strict=True)
    return stream


def lenient() -> tuple[io.StringIO, list[None]]:
    stream, rejected = io.StringIO(), list[None]()
    logs.configure(stream=stream, on_rejected=lambda: rejected.append(None))
    return stream, rejected


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().split("\n") if line]


def test_a_line_is_json_with_level_time_and_sentence_first(out: io.StringIO) -> None:
    log.info("recovers work", count=3, queue="mail")
    (line,) = lines(out)
    assert list(line) == ["level", "ts", "msg", "queue", "logger", "count"]
    assert line["level"] == "info"
    assert line["msg"] == "recovers work"
    assert line["ts"].endswith("Z")


def test_the_agreed_keys_are_all_allowed(out: io.StringIO) -> None:
    agreed = {"trace_id", "span_id", "job_id", "queue", "worker_id", "request_id", "namespace"}
    log.info("tells all", **dict.fromkeys(agreed, "x"))
    (line,) = lines(out)
    assert agreed <= line.keys()


def test_strictly_an_unknown_key_raises(out: io.StringIO) -> None:
    with pytest.raises(InvalidInput, match=r"log keys must be in the table .* got 'payload'"):
        log.info("adds a job", payload=CANARY)
    assert out.getvalue() == ""


def test_strictly_a_value_that_is_not_plain_raises(out: io.StringIO) -> None:
    with pytest.raises(InvalidInput, match="log values must be plain, got dict for 'job_id'"):
        log.info("adds a job", job_id={"data": CANARY})
    assert out.getvalue() == ""


def test_in_production_an_unknown_key_is_dropped_and_counted() -> None:
    out, rejected = lenient()
    log.info("adds a job", job_id="7", payload=CANARY, data=[CANARY])
    assert len(rejected) == 2
    assert CANARY not in out.getvalue()
    assert lines(out)[0]["job_id"] == "7"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.text(min_size=1, max_size=8), canaries), canaries)
def test_no_payload_reaches_the_log(fields: dict[str, Any], nested: Any) -> None:
    out, _ = lenient()
    wrong = {key: value for key, value in fields.items() if key not in KEYS}
    log.info("adds a job", None, CANARY, **{**wrong, "job_id": [nested]})
    try:
        raise ValueError(nested)
    except ValueError:
        log.exception("fails a job")
        logging.getLogger("stranger").exception("went wrong: %s", nested)
    assert CANARY not in out.getvalue()
    assert len(lines(out)) == 3


def test_an_error_is_told_by_class_code_and_place(out: io.StringIO) -> None:
    try:
        raise LeaseLost(CANARY)
    except LeaseLost:
        log.exception("loses a lease")
    (line,) = lines(out)
    assert line["level"] == "error"
    assert (line["error_class"], line["error_code"]) == ("LeaseLost", "LEASE_LOST")
    assert line["error_at"].startswith("test_logs.py:")
    assert CANARY not in out.getvalue()


def test_passwords_in_addresses_are_masked_even_where_the_text_is_cut(out: io.StringIO) -> None:
    log.info("connects", server="redis://me:" + CANARY + "@host/0")
    log.info("connects", server="x" * 280 + "redis://me:" + CANARY + "@host/0")
    assert CANARY not in out.getvalue()
    assert lines(out)[0]["server"] == "redis://***@host/0"


def test_other_libraries_are_told_by_their_template_alone(out: io.StringIO) -> None:
    logging.getLogger("stranger").warning("took %s\nfuture: <Task>", CANARY)
    (line,) = lines(out)
    assert (line["level"], line["msg"], line["logger"]) == ("warning", "took %s", "stranger")


def test_a_line_knows_the_trace_it_was_written_in(out: io.StringIO) -> None:
    with Traces(TracerProvider()).span_for("mail", "7"):
        log.info("works")
        ids = current_ids()
    (line,) = lines(out)
    assert (line["trace_id"], line["span_id"]) == ids


def test_fields_can_be_bound_for_a_while(out: io.StringIO) -> None:
    with logs.about(job_id="7"):
        log.info("works")
    log.info("rests")
    assert [line.get("job_id") for line in lines(out)] == ["7", None]


@given(st.text(), st.floats() | st.integers())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_and_number_makes_one_readable_line(text: str, number: float) -> None:
    out, _ = lenient()
    log.info(text, queue=text + "\ud800", count=number)
    assert len(lines(out)) == 1


def test_levels_below_the_chosen_one_are_silent() -> None:
    stream = io.StringIO()
    logs.configure(stream=stream, level="warning")
    log.info("whispers")
    log.warning("speaks")
    assert [line["msg"] for line in lines(stream)] == ["speaks"]


def test_configuring_again_replaces_what_was_set_up(out: io.StringIO) -> None:
    second = io.StringIO()
    logs.configure(stream=second)
    log.info("works")
    assert out.getvalue() == ""
    assert len(lines(second)) == 1


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(InvalidOption, match="must be DEBUG, INFO, WARNING or ERROR, got 'loud'"):
        logs.configure(level="loud")


def test_for_people_a_line_is_plain_text() -> None:
    stream = io.StringIO()
    logs.configure(stream=stream, format="console")
    log.info("recovers work", count=3)
    assert "recovers work" in stream.getvalue()
    assert "count=3" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()
