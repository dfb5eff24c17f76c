import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waystation.core.events import VERSION, EventName, Product, from_bullmq
from waystation.pipeline.product_keys import StreamNames
from waystation.pipeline.products.facts import ProductFacts
from waystation.pipeline.sources.columns import MOST_SKEW_MS, batch_of
from waystation.pipeline.sources.offsets import EventStream

MAIL = EventStream("bullmq", "mail", "bull:mail:events")

names = st.sampled_from([b"event", b"jobId", b"attemptsMade", b"workerId", b"prev", b"\xff", b""])
values = st.sampled_from([b"waiting", b"active", b"7", b"-7", b"x", b"", b"\xff\xfe", b"1" * 20])
entries = st.lists(
    st.tuples(
        st.integers(0, 10**15 - 1).map(lambda ms: b"%d-0" % ms),
        st.dictionaries(names, values, min_size=1).map(
            lambda fields: [part for pair in fields.items() for part in pair]
        ),
    ),
    min_size=1,
    max_size=20,
)


def rows(*found: Any) -> list[dict[str, Any]]:
    return batch_of(MAIL, list(found)).to_pylist()


@given(entries)
def test_columns_say_what_the_envelope_says_of_every_entry(found: list[Any]) -> None:
    for row, (entry_id, flat) in zip(rows(*found), found, strict=True):
        event = from_bullmq("mail", entry_id, dict(zip(flat[::2], flat[1::2], strict=True)))

        assert (row["product"], row["queue"], row["event"]) == ("bullmq", "mail", event.name)
        assert row["job_id"] == event.subject
        assert row["worker"] == event.worker
        assert row["attempt"] == event.attempt
        assert dict(row["fields"]) == event.fields
        assert (event.corrupt or "") in (row["_corrupt"] or "")


def test_a_page_without_oddities_reads_the_same_with_an_odd_entry_beside_it() -> None:
    dice = random.Random(1)
    page = [
        [b"%d-%d" % (1000 + number // 3, number % 3), _fields(dice, number)]
        for number in range(500)
    ]

    alone, beside = rows(*page), rows(*page, [b"9999-0", [b"event", b"\xff"]])

    assert beside[:-1] == alone
    assert beside[-1]["_corrupt"] == "unknown event '\\\\xff'"


def _fields(dice: random.Random, number: int) -> list[bytes]:
    event = dice.choice([name.value for name in EventName]).encode()
    more = dice.choice([[], [b"prev", b"active"], [b"workerId", b"w1", b"attemptsMade", b"2"]])
    return [b"event", event, b"jobId", b"%d" % number, *more]


@pytest.mark.parametrize(
    ("flat", "complaint"),
    [
        ([b"jobId", b"1"], "no event"),
        ([b"event", b"party"], "unknown event 'party'"),
        ([b"event", b"active", b"attemptsMade", b"soon"], "attemptsMade must be a whole number"),
        ([b"event", b"active", b"attemptsMade", b"-1"], "attemptsMade must be a whole number"),
        ([b"event", b"active", b"attemptsMade", b"9999999999"], "attempt must be at most"),
        ([b"event", b"active", b"prev", b"a", b"prev", b"b"], "prev came 2 times"),
    ],
)
def test_a_malformed_entry_is_kept_and_says_what_is_wrong(
    flat: list[bytes], complaint: str
) -> None:
    (row,) = rows([b"5-1", flat])

    assert complaint in row["_corrupt"]
    kept = f"{row['event']} {row['fields']} {row['job_id']}"
    assert all(value.decode() in kept for value in flat[1::2])


def test_an_id_beyond_every_calendar_is_kept_at_the_end_of_time() -> None:
    (row,) = rows([b"999999999999999-18446744073709551615", [b"event", b"waiting"]])

    assert row["entry_id"] == "999999999999999-18446744073709551615"
    assert row["recorded_at"].year == 9999
    assert row["_corrupt"] == "the instant is at the end of the year 9999, or after it"


def test_a_field_of_a_megabyte_comes_through_unharmed() -> None:
    result = b'"' + b"x" * 2**20 + b'"'

    (row,) = rows([b"5-1", [b"event", b"completed", b"jobId", b"1", b"returnvalue", result]])

    assert dict(row["fields"])["returnvalue"] == result.decode()
    assert row["_corrupt"] is None


class TestTheEnvelopeOfOurOwnLines:
    """The envelope is read in the words that lines write unless they say otherwise."""

    @pytest.fixture(autouse=True)
    def routing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        streams = StreamNames("r", lambda _, queue: queue)
        facts = ProductFacts(product=Product.ROUTING, streams=streams)
        monkeypatch.setattr("waystation.pipeline.products.PRODUCTS", {"routing": facts})

    def row(self, **fields: str) -> dict[str, Any]:
        entry = {"v": "1", "line": "routing", "queue": "gpu", "event": "active", **fields}
        flat = [part.encode() for pair in entry.items() for part in pair]
        (row,) = batch_of(EventStream("routing", "gpu", "r:gpu"), [[b"5000-1", flat]]).to_pylist()
        return row

    def test_what_happened_and_when_it_was_told_are_two_instants(self) -> None:
        row = self.row(at="4000", subject="7", attempt="2", worker="w", note="hi")

        assert (row["recorded_at"].timestamp(), row["at"].timestamp()) == (5, 4)
        assert (row["job_id"], row["attempt"], row["worker"]) == ("7", 2, "w")
        assert row["fields"] == [("note", "hi")]
        assert row["_corrupt"] is None

    @pytest.mark.parametrize("name", ["line", "queue", "subject", "worker", "note"])
    @pytest.mark.parametrize("value", ["", "x", None])
    def test_an_entry_reads_the_same_whatever_is_in_its_page(
        self, name: str, value: str | None
    ) -> None:
        said = {"v": "1", "line": "routing", "queue": "gpu", "event": "active", "subject": "7"}
        fields = {**said, "worker": "w", "note": "hi", name: value}
        known = {name: value for name, value in fields.items() if value is not None}
        flat = [part.encode() for pair in known.items() for part in pair]
        stream, odd = EventStream("routing", "*", "r"), [b"5001-1", [b"event", b"\xff"]]
        (alone,) = batch_of(stream, [[b"5000-1", flat]]).to_pylist()

        together, _ = batch_of(stream, [[b"5000-1", flat], odd]).to_pylist()

        assert together == alone

    @pytest.mark.parametrize("line", ["", "bullmq", "x" * 99])
    def test_the_product_is_that_of_the_stream_whatever_an_entry_says(self, line: str) -> None:
        row = self.row(line=line)

        assert row["product"] == "routing"
        assert row["_corrupt"] == f"line must be routing, got {line[:40]!r}"
        assert dict(row["fields"]) == {"line": line}

    def test_a_version_of_the_future_is_kept_and_marked(self) -> None:
        assert self.row(v="9")["_corrupt"] == f"version 9 is newer than {VERSION}"

    def test_a_clock_that_is_days_off_is_kept_and_marked(self) -> None:
        row = self.row(at=str(5000 + MOST_SKEW_MS + 1))

        assert row["_corrupt"] == f"its instant differs by {MOST_SKEW_MS + 1} ms from the entry's"
