"""Values to JSON and back, the same way on every line.

What others have written is read as Node reads it: halves of characters, numbers of any size and any
depth included. Most of it goes through the fast codec; only what that refuses is looked at again.
"""

import json
import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias, TypeVar, cast, overload

import msgspec

from waystation.core import deep_json, typed
from waystation.core.errors import InvalidInput, InvalidResult, Malformed, PayloadTooLarge

T = TypeVar("T")

Place: TypeAlias = "str | tuple[Place, Any]"
"""Where in a value a part of it is: its name, or the place around it and the step from there."""

PAYLOAD_LIMIT = 10 * 2**20
"""Bytes of JSON that one job may carry unless a setting says otherwise."""

_encode = msgspec.json.Encoder(enc_hook=typed.encode_hook).encode
_decode = msgspec.json.Decoder().decode
_U = ord("u")
_FORGOTTEN = re.compile(r"\b(?:coroutine|Future|Task) is unsupported$")


def encode(value: object) -> bytes:
    """Write a value as compact JSON, or say why it cannot be written."""
    try:
        return _written(value)
    except UnicodeEncodeError as error:
        raise InvalidInput(f"text must be valid Unicode, got a lone surrogate: {error}") from None
    except RecursionError:
        raise InvalidInput("the value is nested too deeply, or contains itself") from None


def encode_as_node(value: object) -> bytes:
    """Write a value as compact JSON, with whatever text and depth Node would write, too.

    For what is only carried; ids and options are read by scripts, which cannot read all of it.
    """
    try:
        return _written(value)
    except UnicodeEncodeError:
        return _written_with_halves(value)
    except RecursionError:
        return _written_deep(value)


def encode_shown(value: object) -> bytes:
    """Write what is shown of a job: a number that JSON lacks, which only a text had, is null."""
    try:
        return encode_as_node(value)
    except InvalidInput:
        return deep_json.write(value, _as_shown).encode("utf-8", "backslashreplace")


def encode_data(
    value: object, what: str = "data", *, write: Callable[[object], bytes] = encode_as_node
) -> bytes:
    """Write what a job is given; a handler has no type for it, so what is no JSON is refused."""
    raw = write(value)
    # To read it back costs less than half of a walk through it, which finds the place.
    if not _comes_back(value, raw):
        refuse_unlike(value, what)
    return raw


def encode_result(
    value: object, limit: int = PAYLOAD_LIMIT, *, what: str = "the handler's result"
) -> bytes:
    """Write what a handler or a step returned; what cannot be stored is an InvalidResult."""
    if value is None:
        return b"null"
    try:
        raw = encode_as_node(value)
    except InvalidInput as error:
        raise InvalidResult(f"{what} cannot be stored: {error}") from None
    except Exception as error:
        # Writing a value may run code of whoever made it, such as a time zone's.
        raise InvalidResult(f"{what} cannot be stored: {error!r}") from error
    if len(raw) > limit:
        raise InvalidResult(
            f"{what} cannot be stored: {len(raw) / 2**20:.1f} MB of JSON "
            f"exceed the limit of {limit / 2**20:.1f} MB"
        )
    return raw


@overload
def decode(raw: bytes | str) -> Any: ...
@overload
def decode(raw: bytes | str, type: type[T]) -> T: ...
def decode(raw: bytes | str, type: Any = Any) -> Any:
    """Read JSON as the type asked for; what cannot be read is Malformed."""
    try:
        return _decode(raw) if type is Any else _decoder(type).decode(raw)
    except msgspec.ValidationError as error:
        if type is not Any:
            raise Malformed(f"the JSON cannot be read: {error}") from None
        refused: Exception = error
    except (RecursionError, ValueError) as error:
        refused = error
    value = _decode_leniently(raw)
    try:
        return value if type is Any else msgspec.convert(value, type)
    except (RecursionError, UnicodeEncodeError, msgspec.ValidationError):
        raise Malformed(f"the JSON cannot be read: {refused}") from None


def as_text(raw: bytes | str) -> str:
    """What any program may have stored, as text; bytes that are no UTF-8 as escapes."""
    return raw if isinstance(raw, str) else raw.decode("utf-8", "backslashreplace")


def decode_or_text(raw: bytes | str) -> Any:
    """Read JSON; what is none is given as the text it is."""
    try:
        return decode(raw)
    except Malformed:
        return as_text(raw)


def text_at(raw: bytes | str, path: str) -> str | None:
    """The value at a path such as `items.0.sku`, texts as they are and others as JSON."""
    found: Any = decode_or_text(raw)
    for step in path.split("."):
        if isinstance(found, dict):
            found = cast("dict[str, Any]", found).get(step)
        elif isinstance(found, list) and step.isdigit():
            some = cast("list[Any]", found)
            found = some[int(step)] if int(step) < len(some) else None
        else:
            return None
    return None if found is None else text_of(found)


def text_of(value: Any) -> str:
    """A value as a text: texts as they are, others as JSON."""
    return value if isinstance(value, str) else encode_shown(value).decode()


def check_size(size: int, limit: int = PAYLOAD_LIMIT, *, what: str = "Job payload") -> None:
    """Refuse a payload of more bytes than the limit."""
    if size > limit:
        raise PayloadTooLarge(
            f"{what} size {size / 2**20:.1f} MB exceeds limit of {limit / 2**20:.1f} MB"
        )


def refuse_unlike(value: Any, what: Place) -> None:
    """Refuse what JSON gives back as something else.

    Objects of a class of their own are left alone: whoever reads them has the class.
    """
    unseen: list[tuple[Any, Place]] = [(value, what)]
    while unseen:
        found, place = unseen.pop()
        if isinstance(found, dict):
            inner = cast("dict[Any, Any]", found)
            refuse_keys(inner, place)
            unseen += [(v, (place, k)) for k, v in inner.items() if type(v) not in _LIKE]
        elif isinstance(found, list | tuple):
            listed = enumerate(cast("list[Any]", found))
            unseen += [(each, (place, at)) for at, each in listed if type(each) not in _LIKE]
        else:
            for kind, back in _UNLIKE.items():
                if isinstance(found, kind):
                    raise InvalidInput(
                        f"{shown(place)} must be a JSON value, got {type(found).__name__}, "
                        f"which would come back as {back}"
                    )


def refuse_keys(value: dict[Any, Any], place: Place) -> None:
    """Refuse keys that JSON gives back as texts, which they are not."""
    for key in value:
        if not isinstance(key, str):
            raise InvalidInput(
                f"the keys of {shown(place)} must be texts, got {type(key).__name__}"
            )


def _comes_back(value: object, raw: bytes) -> bool:
    try:
        return bool(_decode(raw) == value)
    except Exception:
        # Too deep, with halves of characters, or compared by code of whoever made the value.
        return False


_LIKE = frozenset({str, int, float, bool, type(None)})
"""Types whose values come back from JSON as they were."""
_UNLIKE: dict[type, str] = {
    **dict.fromkeys((bytes, bytearray, memoryview), "base64"),
    **dict.fromkeys((set, frozenset), "a list"),
}


def shown(place: Place) -> str:
    """A place such as `data.items.0`."""
    steps: list[str] = []
    while isinstance(place, tuple):
        place, step = cast("tuple[Place, Any]", place)
        steps.append(str(step))
    return ".".join((place, *reversed(steps)))


@cache
def _decoder(type: type[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(type)


def _written(value: object) -> bytes:
    try:
        raw = _encode(value)
        # The encoder writes NaN and the infinities as null, so only output with a null needs a
        # look. Most have no "u", and to look for a byte costs a tenth of looking for a word.
        if _U in raw and raw.find(b"null") >= 0 and not _comes_back(value, raw):
            _refuse_unwritable_numbers(value)
    except (UnicodeEncodeError, InvalidInput):
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise _unwritable(error) from None
    return raw


def _written_with_halves(value: object) -> bytes:
    """Write a value with halves of characters in it, each as its escape."""
    try:
        plain = typed.plain(value)
        _refuse_unwritable_numbers(plain)
        text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        return _written_deep(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise _unwritable(error) from None
    return text.encode("utf-8", "backslashreplace")


def _written_deep(value: object) -> bytes:
    try:
        text = deep_json.write(value, lambda inner: encode(inner).decode())
    except ValueError as error:
        raise InvalidInput(str(error)) from None
    return text.encode("utf-8", "backslashreplace")


def _as_shown(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "null"
    if not isinstance(value, msgspec.Struct):
        return encode(value).decode()
    names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
    members = {shown: getattr(value, name) for name, shown in names}
    members = {name: each for name, each in members.items() if each is not msgspec.UNSET}
    return deep_json.write(members, _as_shown)


def _unwritable(error: Exception) -> InvalidInput:
    hint = "; did you forget await?" if _FORGOTTEN.search(str(error)) else ""
    return InvalidInput(f"the value cannot be written as JSON: {error}{hint}")


def _decode_leniently(raw: bytes | str) -> Any:
    try:
        text = raw if isinstance(raw, str) else raw.decode()
    except UnicodeError as error:
        raise Malformed(f"the JSON is not valid UTF-8: {error}") from None
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_int=deep_json.whole)
    except RecursionError:
        pass
    except ValueError as error:
        raise Malformed(f"the JSON cannot be read: {error}") from None
    try:
        return deep_json.read(text)
    except ValueError as error:
        raise Malformed(f"the JSON cannot be read: {error}") from None


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def _unless_written(value: Any) -> Any:
    # What is JSON already holds no number that JSON cannot write.
    return None if isinstance(value, msgspec.Raw) else typed.encode_hook(value)


def _refuse_unwritable_numbers(value: object) -> None:
    unseen: list[Any] = [msgspec.to_builtins(value, enc_hook=_unless_written)]
    while unseen:
        item = unseen.pop()
        if isinstance(item, dict):
            unseen.extend(cast(dict[Any, Any], item).values())
        elif isinstance(item, list | tuple):
            unseen.extend(cast(list[Any], item))
        elif isinstance(item, float) and not math.isfinite(item):
            raise InvalidInput(f"JSON has no way to write {item}: use a finite number or null")
