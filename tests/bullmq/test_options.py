"""What a producer may ask for, how it stands on the wire, and how others' options are read."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, cast

import pytest

from waystation.bullmq import Limit, WorkerOptions, terms
from waystation.bullmq.options import (
    Backoff,
    Deduplication,
    JobOptions,
    Keep,
    Parent,
    StoredOptions,
    check_job_id,
    kept,
    stored_options,
    wire_options,
)
from waystation.core import codec
from waystation.core.errors import InvalidOption


def on_the_wire(**options: Any) -> dict[str, Any]:
    return codec.decode(wire_options(JobOptions(**options)))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"priority": -1}, "priority must be at least 0, got -1"),
        ({"priority": 2**21}, "priority must be at most 2097151, got 2097152"),
        ({"delay": -1}, "delay must be a timedelta or seconds, at least 0, got -1"),
        ({"attempts": 0}, "attempts must be at least 1, got 0"),
        ({"attempts": -3}, "attempts must be at least 1, got -3"),
        ({"backoff": -1}, "must be a timedelta or seconds, at least 0, got -1"),
        ({"backoff": Backoff("fixed", 0)}, "backoff delay must be more than 0 seconds, got 0"),
        ({"backoff": Backoff("", 0.005)}, "backoff needs a type"),
        ({"remove_on_complete": -1}, "remove_on_complete must be at least 0, got -1"),
        ({"remove_on_fail": -2}, "remove_on_fail must be at least 0, got -2"),
        ({"keep_logs": -1}, "keep_logs must be at least 0, got -1"),
        ({"stack_trace_limit": -1}, "stack_trace_limit must be at least 0, got -1"),
        ({"created_at": datetime(2030, 1, 1)}, "created_at needs a time zone"),
        ({"size_limit": -1}, "size_limit must be at least 0, got -1"),
        ({"attempts": 1.5}, "attempts must be a whole number, got 1.5"),
        ({"attempts": True}, "attempts must be a whole number, got True"),
        ({"delay": float("nan")}, "delay must be a timedelta or seconds, at least 0, got nan"),
        ({"delay": 10**400}, "delay must be at most 285,000 years, got 1000"),
        ({"backoff": 10**400}, "backoff, when it is not a Backoff, must be at most 285,000 years"),
        ({"delay": None}, "delay must be a timedelta or seconds, at least 0, got None"),
        ({"priority": "1"}, "priority must be a whole number, got '1'"),
        (
            {"deduplication": Deduplication("a"), "parent": Parent("1", "bull:q")},
            "a job with a parent cannot be deduplicated",
        ),
        (
            {"fail_parent_on_failure": True, "remove_dependency_on_failure": True},
            "choose one",
        ),
    ],
    ids=str,
)
def test_an_option_outside_what_is_allowed_is_refused(
    options: dict[str, Any], complaint: str
) -> None:
    """D-8, D-20, D-22, D-23, D-24, D-26, D-29: the message says what was wanted and what came."""
    with pytest.raises(InvalidOption, match=complaint):
        JobOptions(**options)


@pytest.mark.parametrize("name", JobOptions.__struct_fields__)
def test_no_option_takes_a_value_of_another_kind(name: str) -> None:
    with pytest.raises(InvalidOption):
        JobOptions(**cast(Any, {name: object()}))


def test_deduplication_needs_an_id_and_a_time_that_makes_sense() -> None:
    with pytest.raises(InvalidOption, match="deduplication needs an id"):
        Deduplication("")
    with pytest.raises(InvalidOption, match="deduplication ttl must be more than 0 seconds, got 0"):
        Deduplication("a", ttl=0)


@pytest.mark.parametrize(
    "id", ["", "0", "17", "-5", "wait", "meta", "stalled-check", "a:b", "0:a:b", "a:b:c:d"]
)
def test_an_id_that_would_be_taken_for_something_else_is_refused(id: str) -> None:
    """D-3: numbers are the counter's, words are the queue's, colons separate keys."""
    with pytest.raises(InvalidOption):
        JobOptions(job_id=id)


@pytest.mark.parametrize("id", ["payment-789", "550e8400-e29b-41d4-a716-446655440000", "a:b:c"])
def test_ids_of_ones_own_are_taken(id: str) -> None:
    """D-3."""
    check_job_id(id)


@pytest.mark.parametrize("type", ["fixed", "exponential"])
@pytest.mark.parametrize("delay", [0, -1])
def test_a_backoff_waits_for_some_time(type: str, delay: int) -> None:
    """D-24: by decision other names are allowed, because a worker may bring its own strategy."""
    with pytest.raises(InvalidOption, match="backoff delay must be"):
        getattr(Backoff, type)(delay)
    assert Backoff.custom("by-the-moon").type == "by-the-moon"


@pytest.mark.parametrize("jitter", [-0.1, 1.1, float("nan")])
def test_jitter_is_a_part_of_the_pause(jitter: float) -> None:
    with pytest.raises(InvalidOption, match="jitter must be between 0 and 1"):
        Backoff.fixed(0.01, jitter=jitter)


def test_keeping_very_many_jobs_is_worth_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """D-26: by policy more than 10000 is a warning, not an error."""
    JobOptions(remove_on_complete=10_001)
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_what_was_not_asked_for_is_not_written() -> None:
    """D-28: what is at its default is left out, but `attempts` always stands there."""
    stored = on_the_wire()
    assert stored == {
        "attempts": 3,
        "backoff": {"type": "exponential", "delay": 1000},
        "stackTraceLimit": 10,
        "kl": 1000,
    }


def test_options_stand_under_the_names_that_bullmq_reads() -> None:
    """P-3, D-2, D-28: camelCase, and short names where BullMQ has them."""
    stored = on_the_wire(
        priority=5,
        delay=0.01,
        attempts=4,
        backoff=Backoff.fixed(0.007),
        remove_on_complete=True,
        remove_on_fail=Keep(age=60, count=5),
        lifo=True,
        job_id="a",
        keep_logs=3,
        deduplication=Deduplication("d", ttl=0.009, keep_last_if_active=True),
        fail_parent_on_failure=True,
    )
    assert stored == {
        "attempts": 4,
        "backoff": {"type": "fixed", "delay": 7},
        "delay": 10,
        "priority": 5,
        "lifo": True,
        "jobId": "a",
        "removeOnComplete": True,
        "removeOnFail": {"age": 60, "count": 5},
        "stackTraceLimit": 10,
        "kl": 3,
        "de": {"id": "d", "ttl": 9, "keepLastIfActive": True},
        "fpof": True,
    }


def test_a_number_as_backoff_is_a_fixed_one() -> None:
    assert on_the_wire(backoff=0.25)["backoff"] == {"type": "fixed", "delay": 250}
    assert "backoff" not in on_the_wire(backoff=None)


@pytest.mark.parametrize(
    ("retention", "meaning"),
    [
        (True, "0"),
        (0, "0"),
        (False, ""),
        (None, ""),
        (1, "1::"),
        (100, "100::"),
        (Keep(age=60), ":60:"),
        (Keep(age=60, count=5, limit=10), "5:60:10"),
        (Keep(count=0), "0"),
    ],
)
def test_what_is_kept_is_told_to_the_script_in_one_word(retention: Any, meaning: str) -> None:
    """D-25, D-26, D-27, P-30."""
    assert kept(retention) == meaning


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        ({"attempts": 0}, (1, None)),
        ({"attempts": "7"}, (7, None)),
        ({"attempts": None}, (1, None)),
        ({"attempts": [3]}, (1, None)),
        ({"backoff": 40}, (1, Backoff("fixed", 0.04))),
        ({"backoff": {"type": "exponential", "delay": -5}}, (1, Backoff("exponential", 0))),
        ({"backoff": {"delay": "x", "jitter": 9}}, (1, Backoff("fixed", 0, 1.0))),
        ({"backoff": "nonsense"}, (1, Backoff("fixed", 0))),
    ],
)
def test_what_another_producer_wrote_is_read_kindly(
    raw: dict[str, Any], wanted: tuple[int, Backoff | None]
) -> None:
    """By decision: whatever stands there, the job must be workable."""
    found = StoredOptions(raw)
    assert (found.attempts, found.backoff) == wanted


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"null", b"7", b"\xff"])
def test_options_that_are_none_are_read_as_none(raw: bytes) -> None:
    found = stored_options(raw)
    assert found.raw == {}
    assert found.attempts == 1
    assert found.keep_completed is None


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ({"removeOnComplete": {"age": "soon"}}, ":0:"),
        ({"removeOnComplete": -1}, ""),
        ({"removeOnComplete": "yes"}, ""),
        ({"removeOnComplete": {"count": 0}}, "0"),
    ],
)
def test_odd_retention_of_another_producer_keeps_rather_than_deletes(
    found: dict[str, Any], wanted: str
) -> None:
    assert StoredOptions(found).keep_completed == wanted


def test_one_is_not_true_and_zero_is_not_false() -> None:
    """D-26: to Python they are equal, but one keeps a job that the other does not."""
    written = [
        on_the_wire(remove_on_complete=keep)["removeOnComplete"] for keep in (1, True, 0, False)
    ]
    assert [(type(each), each) for each in written] == [
        (int, 1),
        (bool, True),
        (int, 0),
        (bool, False),
    ]


SECONDS = [0, 5, 30, 999, 1500.5, 3600, 7200, 36_000, 86_400, 604_800, 2_592_000]
MILLISECONDS = [1000, 5000, 30_000, 60_000, 300_000, 3_600_000, 86_400_000]


def test_a_number_that_was_surely_meant_in_milliseconds_is_told_once_with_both_readings(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terms, "_SUSPECTED", set[Any]())
    for each in SECONDS:
        JobOptions(delay=each)
    JobOptions(delay=timedelta(milliseconds=5_000_000))
    assert "milliseconds_suspected" not in caplog.text
    for each in MILLISECONDS:
        caplog.clear()
        JobOptions(delay=each)
        JobOptions(delay=each)
        assert caplog.text.count("milliseconds_suspected") == 1, each
    hint = vars(caplog.records[-1])["hint"]
    assert "delay 86400000 is read as seconds: 1000 days" in hint
    assert "as milliseconds it were 1 day" in hint
    JobOptions(delay=10**12)


@pytest.mark.parametrize(
    "given",
    [
        lambda: Limit(10, 1000),
        lambda: WorkerOptions(lease=30_000),
        lambda: WorkerOptions(stalled_interval=30_000),
        lambda: WorkerOptions(timeout=60_000),
        lambda: JobOptions(backoff=Backoff.exponential(1000)),
        lambda: JobOptions(backoff=5000),
        lambda: Deduplication("x", ttl=5000),
        lambda: JobOptions(unique_for=5000),
    ],
)
def test_every_time_of_a_program_that_was_ported_is_looked_at(
    given: Callable[[], object], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terms, "_SUSPECTED", set[Any]())
    given()

    assert "milliseconds_suspected" in caplog.text


@pytest.mark.parametrize("id", ["01", "-0", "1.5", "007"])
def test_an_id_that_no_queue_gives_is_taken(id: str) -> None:
    assert JobOptions(job_id=id).job_id == id
