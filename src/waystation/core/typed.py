"""Typed values: what JSON has no form for is written, and read back as an annotation names it.

One codec for tasks, steps, signals and results: dataclasses, structs, models of pydantic, instants,
decimals, UUIDs, enums, sets and bytes, wherever a type tells what they were.
"""

import inspect
import re
from typing import Any, TypeVar, cast

import msgspec

from waystation.core.failure import message_of

T = TypeVar("T")

_ENUM = re.compile(r"Invalid enum value .*?(?= - at |$)", re.DOTALL)
_PLAIN = (str, int, float, bytes, dict, list, tuple, set, frozenset)


def encode_hook(value: Any) -> Any:
    """Write a model of pydantic, which is known by its methods."""
    if dump := getattr(value, "model_dump", None):
        return dump(mode="json")
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


def decode_hook(kind: Any, value: Any) -> Any:
    """Read a model of pydantic."""
    if validate := getattr(kind, "model_validate", None):
        try:
            return validate(value)
        except ValueError as error:
            raise ValueError(_without_values(kind, error)) from None
    if isinstance(value, kind):
        return value
    raise TypeError(f"{kind.__name__} cannot be read from JSON")


def _without_values(kind: Any, error: Any) -> str:
    """What a model says about a value, which may be a secret, without the value itself."""
    if (errors := getattr(error, "errors", None)) is None:
        return f"{kind.__name__}: {type(error).__name__}"
    found = errors(include_input=False, include_url=False, include_context=False)
    places = [(".".join(map(str, each["loc"])), each["msg"]) for each in found]
    return f"{kind.__name__}: " + "; ".join(f"{at}: {why}" if at else why for at, why in places)


def why_not(error: Exception) -> str:
    """Why a value does not fit its type, without the value."""
    return _ENUM.sub("Invalid enum value", message_of(error))


def plain(value: Any) -> Any:
    """A value as JSON takes it."""
    return msgspec.to_builtins(value, enc_hook=encode_hook, str_keys=True)


def converted(value: Any, kind: type[T]) -> T:
    """A value that was read from JSON, as a type wants it."""
    return msgspec.convert(value, kind, dec_hook=decode_hook, str_keys=True)


def unstorable(kind: Any) -> str | None:
    """The class somewhere in a type whose values JSON cannot be made of; None when there is none.

    A type that says too little, such as a protocol, is not held against anybody.
    """
    try:
        found = msgspec.inspect.type_info(kind)
    except Exception:
        return None
    unseen: list[Any] = [found]
    seen: set[int] = set()
    while unseen:
        each = unseen.pop()
        if isinstance(each, list | tuple):
            unseen.extend(cast("list[Any]", each))
        elif isinstance(each, msgspec.inspect.CustomType):
            if _is_opaque(each.cls):
                return each.cls.__name__
        elif isinstance(each, msgspec.Struct) and id(each) not in seen:
            seen.add(id(each))
            unseen.extend(getattr(each, name) for name in each.__struct_fields__)
    return None


def _is_opaque(kind: Any) -> bool:
    if kind is object or hasattr(kind, "model_dump") or issubclass(kind, _PLAIN):
        return False
    return not inspect.isabstract(kind) and not getattr(kind, "_is_protocol", False)
