import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from waystation.core import codec, deep_json

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


@given(values.filter(lambda value: "Infinity" not in json.dumps(value)))
def test_whatever_the_standard_library_writes_is_read(value: Any) -> None:
    for indent in (None, 1):
        assert deep_json.read(json.dumps(value, indent=indent)) == value


@given(values.filter(lambda value: "Infinity" not in json.dumps(value)))
def test_whatever_is_written_the_standard_library_reads(value: Any) -> None:
    assert json.loads(deep_json.write(value, json.dumps)) == value


@pytest.mark.parametrize("key", [1, 2.5])
def test_keys_are_written_as_the_scalars_writer_does(key: Any) -> None:
    written = deep_json.write({key: 1}, lambda value: codec.encode(value).decode())
    assert written.encode() == codec.encode({key: 1})


@given(st.text('[]{}:,"\\ \n0123456789.-+eEtruefalsn'))
@example("[1,]")
@example('{"a":1,}')
@example('{"a" 1}')
@example("{1:2}")
@example("[1}")
@example('{"a":1]')
@example("[]]")
@example("01")
@example(" [ ] ")
def test_whatever_the_standard_library_refuses_is_refused(text: str) -> None:
    assert _read(deep_json.read, text) == _read(json.loads, text)


def test_nesting_beyond_all_measure_is_refused() -> None:
    many = deep_json.MOST_LEVELS
    deep_json.read("[" * many + "]" * many)
    with pytest.raises(ValueError, match="levels"):
        deep_json.read("[" * (many + 2))


def _read(read: Any, text: str) -> Any:
    try:
        return read(text)
    except ValueError:
        return "refused"
