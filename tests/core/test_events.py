import pytest
from hypothesis import given
from hypothesis import strategies as st

from waystation.core.errors import InvalidInput
from waystation.core.events import (
    VERSION,
    Event,
    EventName,
    Product,
    from_bullmq,
    from_entry,
)

ENVELOPE = {"v", "line", "queue", "event", "at", "subject", "attempt", "worker"}

text = st.text(st.characters(codec="utf-8"))
millis = st.integers(min_value=0, max_value=10**15 - 1)
events = st.builds(
    Event,
    line=st.sampled_from(Product).map(str),
    queue=text,
    name=st.sampled_from(EventName).map(str),
    at_ms=millis,
    subject=st.none() | text,
    attempt=st.none() | st.integers(min_value=0, max_value=10**6),
    worker=st.none() | text,
    fields=st.dictionaries(text.filter(lambda name: name not in ENVELOPE), text),
    version=st.integers(min_value=1, max_value=9),
)


@given(events)
def test_an_event_survives_the_stream(event: Event) -> None:
    assert from_entry("1700000000000-0", event.to_fields()) == event


@given(events)
def test_an_event_survives_the_stream_as_bytes(event: Event) -> None:
    raw = {name.encode(): value.encode() for name, value in event.to_fields().items()}
    assert from_entry(b"1700000000000-0", raw) == event


def test_the_stream_id_tells_the_instant_that_the_entry_leaves_out() -> None:
    entry = {"v": "1", "line": "files", "queue": "high", "event": "waiting", "subject": "a.pdf"}
    assert from_entry("1700000000123-4", entry) == Event(
        line="files", queue="high", name="waiting", at_ms=1_700_000_000_123, subject="a.pdf"
    )


def test_an_event_of_a_later_version_is_kept() -> None:
    entry = {"v": "7", "line": "routing", "queue": "pdf", "event": "teleported", "mood": "good"}
    event = from_entry("5-0", entry)
    assert (event.version, event.name, event.fields) == (7, "teleported", {"mood": "good"})
    assert event.corrupt is None


def test_an_own_field_may_not_pass_for_the_envelope() -> None:
    event = Event(line="files", queue="q", name="waiting", at_ms=1, fields={"worker": "me"})
    with pytest.raises(InvalidInput, match="cannot be called worker"):
        event.to_fields()


def test_an_entry_without_its_envelope_says_what_is_missing_and_keeps_the_rest() -> None:
    event = from_entry("5-0", {"attempt": "two", "shoe": "left"})
    assert event.corrupt == "no line; no queue; no event; attempt must be a whole number, got 'two'"
    assert event.fields == {"attempt": "two", "shoe": "left"}


@given(st.binary(), st.dictionaries(st.binary(), st.binary()))
def test_no_entry_whatsoever_stops_the_reader(stream_id: bytes, entry: dict[bytes, bytes]) -> None:
    for event in (from_entry(stream_id, entry), from_bullmq("mail", stream_id, entry)):
        assert event.at_ms >= 0
        assert event.corrupt or event.name


def test_bullmq_entries_become_the_same_form() -> None:
    entry = {
        "event": "completed",
        "jobId": "7",
        "returnvalue": '{"sent":true}',
        "prev": "active",
        "attemptsMade": "2",
        "workerId": "till-1-9-0a",
    }
    assert from_bullmq("mail", "1700000000123-4", entry) == Event(
        line="bullmq",
        queue="mail",
        name="completed",
        at_ms=1_700_000_000_123,
        subject="7",
        attempt=2,
        worker="till-1-9-0a",
        fields={"returnvalue": '{"sent":true}', "prev": "active"},
        version=VERSION,
    )


def test_a_bullmq_event_about_the_queue_has_no_subject() -> None:
    assert from_bullmq("mail", "5-0", {"event": "drained"}).subject is None


def test_a_custom_bullmq_event_keeps_every_field() -> None:
    entry = {"event": "my-own", "queue": "x", "line": "y", "at": "z", "name": "n"}
    event = from_bullmq("mail", "5-0", entry)
    assert (event.line, event.queue, event.name) == ("bullmq", "mail", "my-own")
    assert event.fields == {"queue": "x", "line": "y", "at": "z", "name": "n"}
    assert event.corrupt is None


BULLMQ_WRITES = (
    "added waiting delayed waiting-children active progress completed failed retries-exhausted "
    "stalled removed duplicated deduplicated drained paused resumed cleaned"
)


@pytest.mark.parametrize("name", BULLMQ_WRITES.split())
def test_every_event_that_bullmq_writes_is_known(name: str) -> None:
    assert EventName(name).meaning
