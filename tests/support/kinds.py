"""What fits an annotation and what does not, for walks over whole interfaces."""

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec

from tests.support import interface

WRONG: list[Any] = [
    *(None, 7, -3, 2.5, True, "text", b"x", {"a": 1}, ["x"], [1], object()),
]
"""Values of every kind; for any annotation most of them are wrong."""
_LISTS = (list, tuple, set, frozenset)


def hints(thing: Any) -> dict[str, Any]:
    """The annotations of a function or of a struct's fields, whole."""
    return interface._hints(thing)  # pyright: ignore[reportPrivateUsage]


def methods(kind: type) -> Iterator[tuple[str, Any]]:
    """The public methods of a class, without properties."""
    for name, function in interface._functions(kind):  # pyright: ignore[reportPrivateUsage]
        is_method = inspect.isfunction(inspect.getattr_static(kind, name))
        if is_method and not name.startswith("_") and name != "close":
            yield name, function


def fits(value: Any, annotation: Any) -> bool:
    """Whether a type checker would let the value pass."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation in (Any, object) or isinstance(annotation, typing.TypeVar):
        return True
    if annotation in (None, type(None)):
        return value is None
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, each) for each in args)
    if origin is typing.Literal:
        return value in args
    if origin is typing.Annotated:
        return fits(value, args[0])
    kind = origin or annotation
    if not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return True
    if isinstance(value, bool):
        return annotation is bool
    if annotation is float:
        return isinstance(value, int | float)
    if origin is Callable:
        return callable(value)
    if kind in _LISTS or (origin is not None and issubclass(kind, Iterable)):
        is_right = isinstance(value, Mapping if issubclass(kind, Mapping) else _LISTS)
        items = cast("list[Any]", value) if is_right else []
        return is_right and all(fits(each, args[0]) for each in items if args)
    return isinstance(value, kind)


def good(annotation: Any) -> Any:
    """A value that fits."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType, typing.Literal, typing.Annotated):
        return args[0] if origin is typing.Literal else good(args[0])
    simple: dict[Any, Any] = {
        str: "x", int: 1, float: 1.0, bool: False, Any: {}, object: {}, type(None): None,
        timedelta: timedelta(seconds=1), datetime: datetime(2100, 1, 1, tzinfo=UTC),
    }  # fmt: skip
    if isinstance(annotation, typing.TypeVar):
        return {}
    if annotation in simple:
        return simple[annotation]
    if origin is Callable:
        return print
    if isinstance(origin, type):
        return {} if issubclass(origin, Mapping) else []
    return annotation()


def parameters(function: Any) -> list[inspect.Parameter]:
    """What a method takes, without `self`."""
    return [*inspect.signature(function).parameters.values()][1:]


def needed(function: Any, known: Mapping[Any, Any]) -> dict[str, Any]:
    """The arguments that a call cannot do without, each of the right kind."""
    found: dict[str, Any] = {}
    annotations = hints(function)
    for each in parameters(function):
        is_named = each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        if is_named and each.default is each.empty:
            name = each.name
            kind = annotations.get(name, Any)
            found[name] = known[name] if name in known else known.get(kind) or good(kind)
    return found


def calls_with_a_wrong_argument(
    function: Any, known: Mapping[Any, Any]
) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """Every call of a method that gives one argument of a wrong kind, with what is wrong."""
    annotations, others = hints(function), needed(function, known)
    before: list[str] = []
    for each in parameters(function):
        for value in WRONG if each.kind is not each.VAR_KEYWORD else ():
            if fits(value, annotations.get(each.name, Any)):
                continue
            said = f"{each.name}={value!r}"
            if each.kind is each.VAR_POSITIONAL:
                first = [others[name] for name in before]
                rest = {name: other for name, other in others.items() if name not in before}
                yield said, (*first, value), rest
            else:
                yield said, (), {**others, each.name: value}
        if each.kind is each.POSITIONAL_OR_KEYWORD and each.default is each.empty:
            before.append(each.name)


def fields(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The annotations of the fields that a struct is made with."""
    annotations = hints(kind)
    return {name: annotations[name] for name in kind.__struct_fields__}
