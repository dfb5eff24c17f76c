"""Values to JSON and back, the same way on every line."""

import math
from functools import cache
from typing import Any, TypeVar, cast, overload

import msgspec

from waystation.core.errors import InvalidInput, InvalidResult, Malformed, PayloadTooLarge

T = TypeVar("T")

PAYLOAD_LIMIT = 10 * 2**20
"""Bytes of JSON that one job may carry unless a setting says otherwise."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def encode(value: object) -> bytes:
    """Write a value as compact JSON, or say why it cannot be written."""
    try:
        raw = _encode(value)
    except UnicodeEncodeError as error:
        raise InvalidInput(f"text must be valid Unicode, got a lone surrogate: {error}") from None
    except RecursionError:
        raise InvalidInput("the value is nested too deeply, or contains itself") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"the value cannot be written as JSON: {error}") from None
    # The encoder writes NaN and the infinities as null, so only output with a null needs a look.
    if b"null" in raw and value is not None:
        _refuse_unwritable_numbers(value)
    return raw


def encode_result(value: object, limit: int = PAYLOAD_LIMIT) -> bytes:
    """Write what a handler returned; what cannot be stored is an InvalidResult."""
    try:
        raw = encode(value)
    except InvalidInput as error:
        raise InvalidResult(f"the handler's result cannot be stored: {error}") from None
    if len(raw) > limit:
        raise InvalidResult(
            f"the handler's result cannot be stored: {len(raw) / 2**20:.1f} MB of JSON "
            f"exceed the limit of {limit / 2**20:.1f} MB"
        )
    return raw


@overload
def decode(raw: bytes | str) -> Any: ...
@overload
def decode(raw: bytes | str, type: type[T]) -> T: ...
def decode(raw: bytes | str, type: Any = Any) -> Any:
    """Read JSON as the type asked for; what cannot be read is Malformed."""
    read = _decode if type is Any else _decoder(type).decode
    try:
        return read(raw)
    except RecursionError:
        raise Malformed("the JSON is nested too deeply") from None
    except UnicodeError as error:
        raise Malformed(f"the JSON is not valid UTF-8: {error}") from None
    except msgspec.DecodeError as error:
        raise Malformed(f"the JSON cannot be read: {error}") from None


def check_size(size: int, limit: int = PAYLOAD_LIMIT) -> None:
    """Refuse a payload of more bytes than the limit."""
    if size > limit:
        raise PayloadTooLarge(
            f"Job payload size {size / 2**20:.1f} MB exceeds limit of {limit / 2**20:.1f} MB"
        )


@cache
def _decoder(type: type[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(type)


def _refuse_unwritable_numbers(value: object) -> None:
    unseen: list[Any] = [msgspec.to_builtins(value)]
    while unseen:
        item = unseen.pop()
        if isinstance(item, dict):
            unseen.extend(cast(dict[Any, Any], item).values())
        elif isinstance(item, list | tuple):
            unseen.extend(cast(list[Any], item))
        elif isinstance(item, float) and not math.isfinite(item):
            raise InvalidInput(f"JSON has no way to write {item}: use a finite number or null")
