"""Kept values: what JSON gives back as something else is refused where no type brings it back.

A value and the type that is declared for it are walked together. A declared `list[bytes]`,
`dict[int, str]` or `set[int]` brings back what was written; `Any`, `object`, a bare `dict` or
`list`, and what has one of them as a part, take only what JSON itself can say.
"""

import typing
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import repeat
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import inspect as kinds

from waystation.core import codec, typed
from waystation.core.codec import Place
from waystation.core.errors import InvalidInput

Part: TypeAlias = tuple[Any, kinds.Type, Place]
"""A value, what is declared for it, and where it is."""

_LISTS = (kinds.ListType, kinds.VarTupleType, kinds.TupleType, kinds.NamedTupleType)
_SETS = (kinds.SetType, kinds.FrozenSetType)
_ANY = kinds.AnyType()
_MISSING = object()


class Kept:
    """What is declared for a value: whether one comes back from JSON as it was."""

    def __init__(self, declared: Any) -> None:
        self._kind = _kind_of(declared)
        self._is_open = any(_is_any(each) for each in _every(self._kind))

    def check(self, value: Any, plain: Any, back: Any, what: str) -> None:
        """Refuse a value that was written as `plain` and is another one when it comes `back`."""
        # Where no type says what it was, two objects may be equal and their parts not: a field
        # need not be compared. What is equal to its JSON has no such parts.
        if _is_equal(value, back) and (not self._is_open or _is_equal(value, plain)):
            return
        unseen: list[Part] = [(value, self._kind, what)]
        while unseen:
            unseen += _parts(*unseen.pop())


def _parts(value: Any, declared: kinds.Type, place: Place) -> Iterator[Part]:
    """The parts of a value with what is declared for them; what cannot be kept is refused."""
    kind: Any = _fitting(value, declared)
    match kind:
        case kinds.AnyType() | kinds.StrType():
            codec.refuse_unlike(value, place)
        case kinds.FloatType():
            if float(value) != value:
                raise InvalidInput(f"{codec.shown(place)} has more digits than a float")
        case kinds.DictType():
            _check_keys(value, kind.key_type, place)
            yield from ((each, kind.value_type, (place, key)) for key, each in value.items())
        case kinds.StructType() | kinds.DataclassType() | kinds.TypedDictType():
            yield from _fields(value, kind, place)
        case kinds.CustomType():
            yield from _of_model(value, place)
        case _ if not isinstance(kind, (*_LISTS, *_SETS)):
            return
        case _ if isinstance(value, set | frozenset) and not isinstance(kind, _SETS):
            codec.refuse_unlike(value, place)
        case _:
            listed = zip(cast("Iterable[Any]", value), _items_of(kind), strict=False)
            yield from ((each, of, (place, at)) for at, (each, of) in enumerate(listed))


def _items_of(kind: Any) -> Iterable[kinds.Type]:
    match kind:
        case kinds.TupleType():
            return kind.item_types
        case kinds.NamedTupleType():
            return [field.type for field in kind.fields]
        case _:
            return repeat(kind.item_type)


def _fields(value: Any, kind: Any, place: Place) -> Iterator[Part]:
    if isinstance(value, dict):
        given = cast("dict[Any, Any]", value)
        found = [(field, given.get(field.encode_name, _MISSING)) for field in kind.fields]
    else:
        _refuse_cut(value, kind, place)
        found = [(field, getattr(value, field.name, _MISSING)) for field in kind.fields]
    for field, each in found:
        if each is not _MISSING:
            yield each, field.type, (place, field.name)


def _refuse_cut(value: Any, kind: Any, place: Place) -> None:
    """Refuse an object of a class that has more fields than the one that is declared."""
    own = typing.get_origin(kind.cls) or kind.cls
    if type(value) is own:
        return
    names = getattr(value, "__struct_fields__", None) or getattr(value, "__dataclass_fields__", ())
    more = [each for each in names if each not in {field.name for field in kind.fields}]
    if more:
        raise InvalidInput(
            f"{codec.shown(place)} must be a {own.__name__}, got a {type(value).__name__}, which "
            f"would come back without {', '.join(more)}"
        )


def _of_model(value: Any, place: Place) -> Iterator[Part]:
    """The fields of a model of pydantic that does not bring itself back."""
    model: Any = cast("Any", type(value))
    fields: Any = getattr(model, "model_fields", None)
    if not isinstance(fields, dict):
        return
    with suppress(Exception):
        # Whatever its own code makes of itself; if it cannot, a field may say why.
        if model.model_validate(value.model_dump(mode="json")) == value:
            return
    for name, field in cast("dict[str, Any]", fields).items():
        yield getattr(value, name, None), _kind_of(field.annotation), (place, name)
    extra: dict[str, Any] = getattr(value, "model_extra", None) or {}
    for name, each in extra.items():
        yield each, _ANY, (place, name)


def _check_keys(value: dict[Any, Any], declared: kinds.Type, place: Place) -> None:
    if any(_is_any(each) or isinstance(each, kinds.StrType) for each in _options(declared)):
        codec.refuse_keys(value, place)
    elif len(typed.plain(dict.fromkeys(value))) < len(value):
        raise InvalidInput(f"two keys of {codec.shown(place)} are the same text in JSON")


def _fitting(value: Any, declared: kinds.Type) -> kinds.Type | None:
    """What is declared for such a value: of several types the one that takes it."""
    options = _options(declared)
    if any(_is_any(each) for each in options):
        return _ANY
    exact = [each for each in options if getattr(each, "cls", None) is type(value)]
    found = exact or [each for each in options if _takes(each, value)]
    return found[0] if len(found) == 1 else None


def _takes(kind: kinds.Type, value: Any) -> bool:
    if isinstance(kind, kinds.IntType | kinds.FloatType):
        return isinstance(value, int)
    if isinstance(kind, kinds.StrType):
        return isinstance(value, bytes | bytearray | memoryview)
    if isinstance(kind, (*_LISTS, *_SETS)):
        return isinstance(value, list | tuple | set | frozenset)
    if isinstance(kind, kinds.DictType | kinds.TypedDictType):
        return isinstance(value, dict)
    if isinstance(kind, kinds.StructType | kinds.DataclassType):
        return isinstance(value, (dict, typing.get_origin(kind.cls) or kind.cls))
    return isinstance(kind, kinds.CustomType) and isinstance(value, kind.cls)


def _options(declared: kinds.Type) -> tuple[kinds.Type, ...]:
    if isinstance(declared, kinds.Metadata):
        return _options(declared.type)
    if isinstance(declared, kinds.UnionType):
        return tuple(inner for each in declared.types for inner in _options(each))
    return (declared,)


def _is_any(kind: Any) -> bool:
    if isinstance(kind, kinds.CustomType):
        return kind.cls is object
    return isinstance(kind, kinds.AnyType)


def _kind_of(declared: Any) -> kinds.Type:
    try:
        return kinds.type_info(declared)
    except Exception:
        # A type that says too little, such as a protocol.
        return kinds.CustomType(type(None))


def _every(kind: kinds.Type) -> Iterator[Any]:
    """A type and everything that it has as a part; types may contain themselves."""
    unseen: list[Any] = [kind]
    seen: set[int] = set()
    while unseen:
        each = unseen.pop()
        if isinstance(each, tuple):
            unseen.extend(cast("tuple[Any, ...]", each))
        elif isinstance(each, msgspec.Struct) and id(each) not in seen:
            seen.add(id(each))
            yield each
            unseen.extend(getattr(each, name) for name in each.__struct_fields__)


def _is_equal(value: Any, back: Any) -> bool:
    try:
        return bool(value == back)
    except Exception:
        return False
