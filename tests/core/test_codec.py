import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waystation.core import codec
from waystation.core.errors import InvalidInput, InvalidResult, Malformed, PayloadTooLarge

text = st.text(st.characters(codec="utf-8"))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text
json_values = st.recursive(
    scalars.filter(lambda value: value not in (math.inf, -math.inf)),
    lambda inner: st.lists(inner) | st.dictionaries(text, inner),
    max_leaves=20,
)


class Ticket(msgspec.Struct):
    seat: str
    price: float = 0.0


@given(json_values)
def test_what_is_written_reads_back_the_same(value: Any) -> None:
    assert codec.decode(codec.encode(value)) == value


@given(st.binary())
def test_any_bytes_are_read_or_called_malformed(raw: bytes) -> None:
    try:
        codec.decode(raw)
    except Malformed:
        return


@given(json_values)
def test_a_typed_read_gives_the_type_or_is_malformed(value: Any) -> None:
    try:
        ticket = codec.decode(codec.encode(value), Ticket)
    except Malformed:
        return
    assert isinstance(ticket, Ticket)


@pytest.mark.parametrize("number", [2**53 + 1, 2**63, 2**64 + 1, -(2**80)])
def test_whole_numbers_of_any_size_pass_unharmed(number: int) -> None:
    assert codec.decode(codec.encode({"n": number})) == {"n": number}


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_json_cannot_write_are_refused(number: float) -> None:
    for value in (number, [{"deep": (None, number)}], Ticket("A1", number)):
        with pytest.raises(InvalidInput, match="JSON has no way to write"):
            codec.encode(value)


def test_null_and_the_word_null_are_no_reason_to_refuse() -> None:
    assert codec.encode([None, "null", 1.5]) == b'[null,"null",1.5]'


def test_nothing_is_escaped_that_need_not_be() -> None:
    assert codec.encode("a/b <é> 😀") == '"a/b <é> 😀"'.encode()


@pytest.mark.parametrize("value", ["\ud800", {"\udfff": 1}, ["ok", "\udc00"]])
def test_lone_surrogates_are_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match="lone surrogate"):
        codec.encode(value)


@pytest.mark.parametrize("value", [object(), {(1, 2): 3}, print])
def test_values_that_are_not_data_are_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match="cannot be written as JSON"):
        codec.encode(value)


def test_a_coroutine_is_refused_with_what_was_forgotten() -> None:
    async def load() -> None: ...

    made = load()
    try:
        for value in (made, [1, made], ["\ud800", made]):
            with pytest.raises(InvalidResult, match=r"type coroutine .*; did you forget await\?$"):
                codec.encode_result(value)
    finally:
        made.close()


def test_a_result_that_cannot_be_stored_says_whose_it_is() -> None:
    with pytest.raises(InvalidResult, match=r"^the handler's result cannot be stored: "):
        codec.encode_result(object())
    with pytest.raises(InvalidResult, match=r"^the result of step 'x' cannot be stored: .*limit"):
        codec.encode_result("long", 2, what="the result of step 'x'")


def test_a_value_that_contains_itself_is_refused() -> None:
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(InvalidInput, match="contains itself"):
        codec.encode(ring)


@pytest.mark.parametrize("raw", [b"", b"{", b"NaN", b'"\xff"', b"1 2", b"[" * 99_999])
def test_text_that_is_not_json_is_malformed(raw: bytes) -> None:
    with pytest.raises(Malformed):
        codec.decode(raw)


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b'"party \\ud83c"', "party \ud83c"),
        (b'{"\\udf89":["\\ud83c\\udf89"]}', {"\udf89": ["\U0001f389"]}),
        (b"1e400", math.inf),
        (b"1" * 5000, math.inf),
    ],
    ids=["half", "halves", "float", "whole"],
)
def test_what_node_reads_is_read(raw: bytes, value: Any) -> None:
    assert codec.decode(raw) == codec.decode(raw.decode()) == value
    assert codec.decode_or_text(raw) == value


def test_a_part_that_is_kept_as_it_is_cannot_be_read_in_another_way() -> None:
    with pytest.raises(Malformed, match="the JSON cannot be read: Input data was truncated"):
        codec.decode(b'{"kept":{"seat":"\\ud83c"}}', dict[str, msgspec.Raw])


def test_a_typed_read_takes_what_node_reads_too() -> None:
    assert codec.decode(b'{"seat":"\\ud83c","price":2}', Ticket) == Ticket("\ud83c", 2.0)
    deep = b"[" * 2000 + b"]" * 2000
    assert codec.decode(b'{"seat":"A1","more":%b}' % deep, Ticket) == Ticket("A1")


@pytest.mark.parametrize(
    "value", ["party \ud83c", {"\udf89": ["é", 1.5, None]}, [b"\xff", "\ud800"]]
)
def test_halves_of_characters_are_written_as_node_writes_them(value: Any) -> None:
    raw = codec.encode_as_node(value)
    assert raw.isascii() or "é".encode() in raw
    plain = msgspec.to_builtins(value)
    assert codec.decode(raw) == plain


@pytest.mark.parametrize("value", [["\ud800", math.nan], ["\ud800", object()]])
def test_halves_of_characters_excuse_nothing_else(value: Any) -> None:
    with pytest.raises(InvalidInput):
        codec.encode_as_node(value)


@pytest.mark.parametrize(("open", "close"), [(b"[", b"]"), (b'{"a":', b"}")])
@pytest.mark.parametrize("inner", [b"null", b'"\\ud83c"', b"1.5"])
def test_json_of_any_depth_is_read_and_written(open: bytes, close: bytes, inner: bytes) -> None:
    raw = open * 5000 + inner + close * 5000
    assert codec.encode_as_node(codec.decode(raw)) == raw


def test_a_ring_or_a_bad_number_is_refused_at_any_depth() -> None:
    ring: list[Any] = []
    ring.append({"a": ring})
    deep: Any = math.nan
    for _ in range(5000):
        deep = [deep]
    for value in (ring, deep):
        with pytest.raises(InvalidInput):
            codec.encode_as_node(value)


@pytest.mark.parametrize("raw", [b"oops", b"\xff", b""])
def test_what_is_no_json_is_given_as_text_where_that_is_asked_for(raw: bytes) -> None:
    assert codec.decode_or_text(raw) == raw.decode("utf-8", "backslashreplace")


def test_a_wrong_shape_says_what_was_wanted_and_where() -> None:
    with pytest.raises(Malformed, match=r"Expected `str`, got `int` - at `\$.seat`"):
        codec.decode('{"seat": 7}', Ticket)


def test_a_payload_of_exactly_the_limit_is_taken() -> None:
    codec.check_size(codec.PAYLOAD_LIMIT)


def test_a_payload_over_the_limit_is_refused_in_the_agreed_words() -> None:
    size = round(12.3 * 2**20)
    with pytest.raises(PayloadTooLarge) as refused:
        codec.check_size(size)
    assert str(refused.value) == "Job payload size 12.3 MB exceeds limit of 10.0 MB"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("to", "ada"),
        ("items.1.sku", "b"),
        ("items.1", '{"sku":"b"}'),
        ("n", "7"),
        ("none", None),
        ("items.2", None),
        ("to.name", None),
        ("items.x", None),
    ],
)
def test_a_path_finds_what_stands_there(path: str, found: str | None) -> None:
    raw = '{"to":"ada","n":7,"none":null,"items":[{"sku":"a"},{"sku":"b"}]}'
    assert codec.text_at(raw, path) == found


def test_a_path_finds_nothing_in_what_is_no_json() -> None:
    assert codec.text_at("ada", "to") is None
