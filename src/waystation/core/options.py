"""Options and arguments that make sense, or an error that says what was wanted and what came.

Calls are checked against the kinds that their annotations name. A wrong kind would fail where
nobody understands why, or worse, be taken for something else: the text "no" is true, and an id that
is a number names no job.
"""

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import timedelta
from difflib import get_close_matches
from enum import Enum
from functools import cache, wraps
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, cast

import msgspec

from waystation.core.errors import InvalidOption

K = TypeVar("K", bound=type)
S = TypeVar("S", bound=msgspec.Struct)

SPOKEN = {str: "text", bool: "True or False", int: "a whole number"}
_OPEN = (Any, object, timedelta)
"""What takes everything, or is read by functions with sentences of their own."""
_LISTS = (list, tuple, set, frozenset, Sequence, Set, Iterable)
"""A list of one kind is as good as another's."""
_SPOKEN: dict[Any, str] = {
    **SPOKEN, Mapping: "a dict", Callable: "a function", float: "a number", type(None): "None",
}  # fmt: skip
_MARK = "__checked__"
_WITH_OWN_SENTENCES = ("path", "paths")
_WITH_MORE_NAMES = ("state", "states")
"""Node's names of states are taken, too."""
_MADE_WITH = ("url", "handler", "handlers")


def at_least(name: str, value: Any, least: int) -> int:
    """The value, if it is a whole number and not less than that."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidOption(f"{name} must be a whole number, got {value!r}")
    if value < least:
        raise InvalidOption(f"{name} must be at least {least}, got {value}")
    return value


def of_kind(name: str, value: Any, kind: type) -> None:
    """Refuse a value of another kind, which would only fail where nobody understands why."""
    if not isinstance(value, kind):
        raise InvalidOption(
            f"{name} must be {SPOKEN.get(kind) or f'a {kind.__name__}'}, got {value!r}"
        )


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The name that was meant by a mistyped one, if one is near."""
    return next(iter(get_close_matches(name, list(known), n=1)), None)


def with_keywords(
    options: S,
    given: Mapping[str, Any],
    *,
    of: str,
    others: Sequence[str] = (),
    elsewhere: Mapping[str, str] = MappingProxyType({}),
) -> S:
    """The options with these keywords in their place, which are fields of theirs.

    A keyword that nobody knows is refused with the nearest one, which may be among `others`, or the
    one that another queue calls so (`elsewhere`); `of` is who takes them.
    """
    if not given:
        return options
    known = (*others, *options.__struct_fields__)
    wrong = next((name for name in given if name not in options.__struct_fields__), None)
    if wrong is None:
        return msgspec.structs.replace(options, **given)
    near = nearest(wrong, others) or elsewhere.get(wrong) or nearest(wrong, known)
    hint = f"did you mean {near}? " if near else ""
    raise InvalidOption(f"there is no option {wrong!r}; {hint}{of} takes {', '.join(known)}")


def checked(kind: K) -> K:
    """Check what a class and each of its public methods are given, before they do anything."""
    for name in dir(kind):
        function = inspect.getattr_static(kind, name)
        is_public = name == "__init__" or not name.startswith("_")
        # What an ancestor checks already is left alone.
        if is_public and inspect.isfunction(function) and not hasattr(function, _MARK):
            checking = _checking(function)
            setattr(checking, _MARK, True)
            setattr(kind, name, checking)
    return kind


def check_fields(options: msgspec.Struct) -> None:
    """Refuse options with a field of another kind than its annotation names."""
    for name, kind in _fields(type(options)):
        _check(name, kind, getattr(options, name))


class _Kind(NamedTuple):
    """What an argument may be."""

    spoken: str
    fits: Callable[[Any], bool]
    plain: tuple[type, ...] = ()
    """Classes of which nothing more is asked."""


class _Parameters(NamedTuple):
    """What a function takes."""

    by_name: dict[str, _Kind | None]
    in_order: list[tuple[str, _Kind | None]]
    rest: tuple[str, _Kind | None] | None
    takes_more: bool

    def check(self, called: str, args: tuple[Any, ...], given: Mapping[str, Any]) -> None:
        if not self.takes_more and not given.keys() <= self.by_name.keys():
            self._refuse_slip(called, given)
        for at, value in enumerate(args[1:]):
            pair = self.in_order[at] if at < len(self.in_order) else self.rest
            if pair is not None:
                _check(*pair, value)
        for name, value in given.items():
            _check(name, self.by_name.get(name), value)

    def _refuse_slip(self, called: str, given: Mapping[str, Any]) -> None:
        slip = next(name for name in given if name not in self.by_name)
        near = nearest(slip, self.by_name)
        hint = f"did you mean {near}? " if near else ""
        takes = ", ".join(self.by_name) or "nothing"
        raise InvalidOption(f"there is no option {slip!r}; {hint}{called} takes {takes}")


def _check(name: str, kind: _Kind | None, value: Any) -> None:
    # Most are of the very class that is named: no further question, as every `add` comes by here.
    if kind is None or type(value) in kind.plain:
        return
    # True is a number to Python, and to nobody else.
    if isinstance(value, bool) or not kind.fits(value):
        raise InvalidOption(f"{name} must be {kind.spoken}, got {value!r}")


def _checking(function: Callable[..., Any]) -> Callable[..., Any]:
    @cache
    def parameters() -> _Parameters:
        return _parameters(function)

    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def awaited(*args: Any, **given: Any) -> Any:
            parameters().check(function.__name__, args, given)
            return await function(*args, **given)

        return awaited

    @wraps(function)
    def called(*args: Any, **given: Any) -> Any:
        parameters().check(function.__name__, args, given)
        return function(*args, **given)

    return called


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, _Kind | None], ...]:
    hints = _hints(kind)
    return tuple((name, _kind_of(hints.get(name, Any))) for name in kind.__struct_fields__)


def _hints(thing: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(thing)
    except NameError:
        # Some names are imported for type checkers alone.
        own = thing.__annotations__.items()
        return {name: each for name, each in own if not isinstance(each, str)}


def _parameters(function: Callable[..., Any]) -> _Parameters:
    more = _MADE_WITH if function.__name__ == "__init__" else ()
    hints = {**_hints(function), **dict.fromkeys((*_WITH_OWN_SENTENCES, *more), Any)}
    shown = [*inspect.signature(function).parameters.values()][1:]
    kinds = [(each, (each.name, _kind_of(hints.get(each.name, Any), each.name))) for each in shown]
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return _Parameters(
        dict(pair for each, pair in kinds if each.kind in named),
        [pair for each, pair in kinds if each.kind is each.POSITIONAL_OR_KEYWORD],
        next((pair for each, pair in kinds if each.kind is each.VAR_POSITIONAL), None),
        any(each.kind is each.VAR_KEYWORD for each in shown),
    )


def _kind_of(annotation: Any, name: str = "") -> _Kind | None:
    """What an annotation lets in; None where it does not say enough."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    kind: Any = origin or annotation
    if kind is typing.Literal:
        return _class(str) if name in _WITH_MORE_NAMES else _one_of(args)
    if kind in (typing.Union, types.UnionType):
        return _united([_kind_of(each, name) for each in args])
    if kind in _LISTS:
        return _list_of(args[0] if args and args[0] in (str, int) else None)
    if kind in _OPEN or getattr(kind, "_is_protocol", False):
        return None
    if not isinstance(kind, type) and kind is not Callable:
        return None
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _one_of(tuple(kind))
    # A secret is a text that is not shown.
    return _class(str if isinstance(kind, type) and issubclass(kind, str) else kind)


def _class(kind: Any) -> _Kind:
    classes = (int, float) if kind is float else (kind,)

    def fits(value: Any) -> bool:
        return isinstance(value, classes)

    return _Kind(_SPOKEN.get(kind) or f"a {kind.__name__}", fits, classes)


def _one_of(values: tuple[Any, ...]) -> _Kind:
    return _Kind("one of " + ", ".join(map(str, values)), values.__contains__)


def _list_of(item: type | None) -> _Kind:
    def fits(value: Any) -> bool:
        # A text is a sequence, too: of its letters.
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            return False
        # Only what can be looked at twice is looked into.
        items = cast("list[Any]", value) if isinstance(value, list | tuple) else []
        return item is None or all(
            isinstance(each, item) and not isinstance(each, bool) for each in items
        )

    return _Kind("a list" if item is None else f"a list, each {SPOKEN[item]}", fits)


def _united(kinds: Sequence[_Kind | None]) -> _Kind | None:
    known = [each for each in kinds if each is not None]
    if len(known) < len(kinds):
        return None

    def fits(value: Any) -> bool:
        return any(each.fits(value) for each in known)

    spoken = " or ".join(each.spoken for each in known).replace(" or one of ", ", ")
    return _Kind(spoken, fits, tuple(plain for each in known for plain in each.plain))
