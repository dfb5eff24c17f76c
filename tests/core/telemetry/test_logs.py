import ast
import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider

from waystation.core.errors import InvalidInput, InvalidOption, LeaseLost
from waystation.core.telemetry import logs
from waystation.core.telemetry.logs import KEYS, Lines
from waystation.core.telemetry.traces import Traces, current_ids

SOURCE = Path(logs.__file__).parents[2]
CANARY = "canary-7f3a"
log = logs.get_logger("waystation.test")
theirs = logging.getLogger("shop")

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
    logs.configure(stream=stream, redact="all", on_rejected=lambda: rejected.append(None))
    return stream, rejected


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().split("\n") if line]


def test_a_line_is_json_with_level_time_and_event_first(out: io.StringIO) -> None:
    log.info("jobs_recovered", count=3, queue="mail")
    (line,) = lines(out)
    assert list(line) == ["level", "ts", "msg", "queue", "logger", "count"]
    assert line["level"] == "info"
    assert line["msg"] == "jobs_recovered"
    assert line["ts"].endswith("Z")


def test_the_agreed_keys_are_all_allowed(out: io.StringIO) -> None:
    agreed = {"trace_id", "span_id", "job_id", "queue", "worker_id", "request_id", "namespace"}
    log.info("all_fields", **dict.fromkeys(agreed, "x"))
    (line,) = lines(out)
    assert agreed <= line.keys()


@pytest.mark.parametrize("key", ["payload", "msg", "level"])
def test_strictly_a_key_that_is_not_ours_to_give_raises(out: io.StringIO, key: str) -> None:
    with pytest.raises(InvalidInput, match=rf"log keys must be in the table .* got '{key}'"):
        log.info("job_added", **{key: CANARY})
    assert out.getvalue() == ""


def test_strictly_a_value_that_is_not_plain_raises(out: io.StringIO) -> None:
    with pytest.raises(InvalidInput, match="log values must be plain, got dict for 'job_id'"):
        log.info("job_added", job_id={"data": CANARY})
    assert out.getvalue() == ""


def test_in_production_an_unknown_key_is_dropped_and_counted() -> None:
    out, rejected = lenient()
    log.info("job_added", job_id="7", payload=CANARY, data=[CANARY])
    assert len(rejected) == 2
    assert CANARY not in out.getvalue()
    assert lines(out)[0]["job_id"] == "7"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.text(min_size=1, max_size=8), canaries), canaries)
def test_no_payload_reaches_a_redacted_log(fields: dict[str, Any], nested: Any) -> None:
    out, _ = lenient()
    wrong = {key: value for key, value in fields.items() if key not in KEYS}
    log.info("job_added", **{**wrong, "job_id": [nested]})
    try:
        raise ValueError(nested)
    except ValueError as error:
        log.exception("job_failed")
        log.warning("job_retried", **logs.describe(error))
        theirs.exception("went wrong: %s", nested, extra={"cart": nested})
    assert CANARY not in out.getvalue()
    assert len(lines(out)) == 4


def test_an_error_is_reported_with_class_code_place_and_traceback(out: io.StringIO) -> None:
    try:
        raise LeaseLost("job 7 is held by another worker")
    except LeaseLost:
        log.exception("lease_lost")
    (line,) = lines(out)
    assert line["level"] == "error"
    assert (line["error_class"], line["error_code"]) == ("LeaseLost", "LEASE_LOST")
    assert line["error_at"].startswith("test_logs.py:")
    assert line["traceback"].startswith("Traceback (most recent call last)")
    assert line["traceback"].endswith("LeaseLost: job 7 is held by another worker")


def test_redaction_of_ours_leaves_the_loggers_of_others_alone() -> None:
    out = io.StringIO()
    logs.configure(stream=out, redact="ours")
    try:
        raise ValueError(CANARY)
    except ValueError as error:
        log.exception("job_failed")
        log.warning("job_retried", **logs.describe(error))
        theirs.exception("could not charge %s", "ada")
    failed, retried, charged = lines(out)
    assert CANARY not in json.dumps([failed, retried])
    assert failed["error_class"] == retried["error_class"] == "ValueError"
    assert charged["msg"] == "could not charge ada"
    assert CANARY in charged["traceback"]


def test_passwords_in_addresses_are_masked_even_where_the_text_is_cut(out: io.StringIO) -> None:
    log.info("connected", server="redis://me:" + CANARY + "@host/0")
    log.info("connected", server="x" * 280 + "redis://me:" + CANARY + "@host/0")
    log.error("store_unreachable", LeaseLost(f"redis://me:{CANARY}@host"))
    assert CANARY not in out.getvalue()
    assert lines(out)[0]["server"] == "redis://***@host/0"


def test_what_other_loggers_say_is_written_whole(out: io.StringIO) -> None:
    theirs.warning("sent %s to %d\nsecond line", "mail", 7, extra={"cart": {"items": [1, 2]}})
    try:
        _ = {"name": "ada"}["email"]
    except KeyError:
        theirs.exception("could not send to %s", "ada")
    sent, failed = lines(out)
    assert (sent["level"], sent["logger"]) == ("warning", "shop")
    assert sent["msg"] == "sent mail to 7\nsecond line"
    assert sent["cart"] == {"items": [1, 2]}
    assert failed["msg"] == "could not send to ada"
    assert failed["error_class"] == "KeyError"
    assert failed["traceback"].endswith("KeyError: 'email'")
    assert "test_logs.py" in failed["traceback"]


def test_an_extra_that_has_the_name_of_a_field_is_kept_under_another(out: io.StringIO) -> None:
    theirs.info("sent", extra={"level": "urgent", "queue": "mail", "odd": object})
    (line,) = lines(out)
    assert (line["level"], line["level_"], line["queue"]) == ("info", "urgent", "mail")
    assert line["odd"] == "<class 'object'>"


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("nothing to say")


@pytest.mark.parametrize(
    "extra",
    [{"a": float("nan")}, {"b": "\ud800"}, {"c": {1.5: b"x"}}, {"d": Mute()}, {"e": {Mute()}}],
)
def test_an_extra_that_json_cannot_hold_costs_no_line(
    out: io.StringIO, extra: dict[str, Any]
) -> None:
    theirs.info("sent \ud800", extra={**extra, "to": "ada"})
    (line,) = lines(out)
    assert line["to"] == "ada"
    assert line.keys() >= extra.keys()


def test_a_call_with_wrong_arguments_is_written_all_the_same() -> None:
    record = logging.makeLogRecord({"msg": "sent %d to %s", "args": ("mail",)})
    line = json.loads(Lines("json").format(record))
    assert line["msg"] == "sent %d to %s ('mail',)"


def test_for_people_what_other_loggers_say_is_written_whole() -> None:
    stream = io.StringIO()
    logs.configure(stream=stream, format="console")
    try:
        raise RuntimeError("card refused")
    except RuntimeError:
        theirs.exception("charge failed for %s", "ada", extra={"order": 7})
    text = stream.getvalue()
    assert "[error] charge failed for ada" in text
    assert "order=7" in text
    assert text.endswith("RuntimeError: card refused\n")
    assert "Traceback (most recent call last):\n" in text


def test_a_line_knows_the_trace_it_was_written_in(out: io.StringIO) -> None:
    with Traces(TracerProvider()).span_for("mail", "7"):
        log.info("job_started")
        ids = current_ids()
    (line,) = lines(out)
    assert (line["trace_id"], line["span_id"]) == ids


def test_fields_can_be_bound_to_a_logger(out: io.StringIO) -> None:
    log.bind(job_id="7").info("job_started", attempt=1)
    log.info("worker_stopped")
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
    log.info("worker_started")
    log.warning("store_unreachable")
    assert [line["msg"] for line in lines(stream)] == ["store_unreachable"]


def test_configuring_again_replaces_what_was_set_up(out: io.StringIO) -> None:
    second = io.StringIO()
    logs.configure(stream=second)
    log.info("worker_started")
    assert out.getvalue() == ""
    assert len(lines(second)) == 1


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(InvalidOption, match="must be DEBUG, INFO, WARNING or ERROR, got 'loud'"):
        logs.configure(level="loud")


def test_for_people_a_line_is_plain_text() -> None:
    stream = io.StringIO()
    logs.configure(stream=stream, format="console")
    log.info("jobs_recovered", count=3)
    assert "[info] jobs_recovered count=3" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_handlers_of_the_user_get_an_ordinary_record(caplog: pytest.LogCaptureFixture) -> None:
    error = KeyError("email")
    log.error("job_failed", error, job_id="7", queue="two words")
    (record,) = caplog.records
    assert record.getMessage() == 'job_failed job_id=7 queue="two words" error_class=KeyError'
    assert record.exc_info is not None
    assert record.exc_info[1] is error
    assert vars(record)["job_id"] == "7"
    assert (record.filename, record.funcName) == (
        "test_logs.py",
        "test_handlers_of_the_user_get_an_ordinary_record",
    )


LOGGING = {"debug", "info", "warning", "error", "exception", "bind"}


def log_calls() -> Iterator[tuple[str, ast.Call]]:
    """Every call of a logger of ours in the source."""
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        # Most files need no parsing.
        if "log." not in text and "logger" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in LOGGING:
                    if re.search(r"log(ger)?$|_logger\(.*\)$", ast.unparse(value)):
                        yield f"{path.relative_to(SOURCE)}:{node.lineno}", node
                case _:
                    pass


def test_every_field_that_is_logged_anywhere_is_in_the_table() -> None:
    calls = list(log_calls())
    assert len(calls) > 50
    # What every line gets by itself is not for anybody to give.
    allowed = KEYS.keys() - {"level", "ts", "msg", "logger", "traceback"}
    unknown = {
        f"{place} {word.arg}"
        for place, call in calls
        for word in call.keywords
        if word.arg is not None and word.arg not in allowed
    }
    assert unknown == set()
