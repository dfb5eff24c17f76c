"""Functions of steps: how they are called, what they are known by, and what they promise."""

import asyncio
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, cast, get_type_hints
from weakref import WeakKeyDictionary

import msgspec

from waystation.core import typed
from waystation.core.errors import InvalidResult, UnreadableData

_AS_JSON_HAS_IT = (Any, object, type(None), bool, int, float, str, list, dict)
_PROMISES: WeakKeyDictionary[Callable[..., Any], Any] = WeakKeyDictionary()
"""What functions return that have been steps."""


async def called(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a function returns: a coroutine on the loop, a plain function in a thread."""
    if inspect.iscoroutinefunction(function):
        return await function(*args, **kwargs)
    result = await asyncio.to_thread(function, *args, **kwargs)
    return await result if inspect.isawaitable(result) else result


def name_of(function: Callable[..., Any]) -> str:
    """What a function is known by from one version of a program to the next."""
    function = _unwrapped(function)
    return str(getattr(function, "__name__", type(function).__name__))


def as_wanted(what: str, value: Any, kind: Any) -> Any:
    """A value as the caller wants it; raises `UnreadableData` when it does not fit."""
    if kind is Any:
        return value
    try:
        return typed.converted(value, kind)
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise UnreadableData(f"{what} does not fit {kind!r}: {typed.why_not(error)}") from None


def as_promised(function: Callable[..., Any], plain: Any) -> Any:
    """What a step returned, of the type that its function's annotation names.

    Without an annotation, or with one that it does not fit, it is as JSON has it.
    """
    kind = _promised(function)
    if kind is Any:
        return plain
    try:
        return typed.converted(plain, kind)
    except (msgspec.ValidationError, TypeError, ValueError):
        return plain


def check_promise(step: str, function: Callable[..., Any]) -> None:
    """Refuse a function whose result could not be stored, before it has any effect."""
    if (opaque := typed.unstorable(_promised(function))) is not None:
        raise InvalidResult(
            f"the step {step!r} was not run: {name_of(function)} returns {opaque}, which cannot be "
            "stored as JSON; return a dataclass, a model or plain values"
        )


def _unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, partial):
        function = cast("partial[Any]", function).func
    return getattr(function, "__func__", function)


def _promised(function: Callable[..., Any]) -> Any:
    function = _unwrapped(function)
    try:
        if function not in _PROMISES:
            kind = get_type_hints(function, include_extras=True).get("return", Any)
            _PROMISES[function] = Any if kind in _AS_JSON_HAS_IT else kind
        return _PROMISES[function]
    except Exception:
        return Any  # it cannot be read, or what was called is no function
