"""Rules of steps: their names and functions, what these promise, ids of children, durations."""

import asyncio
import inspect
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, cast, get_type_hints
from weakref import WeakKeyDictionary

import msgspec

from waystation.bullmq.fields import JobFields, known
from waystation.bullmq.keywords import JobKeywords
from waystation.core import typed
from waystation.core.durations import Duration, DurationKeywords, instant
from waystation.core.errors import (
    InvalidInput,
    InvalidOption,
    InvalidResult,
    UnreadableData,
    WrongState,
)

UNDOING = "undo "
"""What the names of steps begin with that undo others."""
LAST_DUE_MS = 2**41 - 1
"""The last instant that delayed jobs can be ordered by, as BullMQ keeps them."""
_NO_CHILD_HAS = (
    "job_id",
    "parent",
    "deduplication",
    "unique_for",
    "fail_parent_on_failure",
    "continue_parent_on_failure",
    "remove_dependency_on_failure",
)
_ESCAPED = str.maketrans({"%": "%25", "~": "%7E", ":": "%3A"})
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


def duration_of(duration: Duration | None, given: DurationKeywords) -> Duration:
    """A duration, or one from the keywords of a `timedelta`."""
    if duration is not None and given:
        raise InvalidOption(f"give a duration or {', '.join(given)}, not both")
    if duration is None and not given:
        raise InvalidOption("give a duration, such as 60 for a minute, or days, hours, minutes")
    if duration is not None:
        return duration
    try:
        return timedelta(**given)
    except (TypeError, OverflowError) as error:
        raise InvalidOption(f"a sleep takes a duration, or days, hours, minutes: {error}") from None


def checked_name(kind: str, name: str) -> str:
    """The name of a step or a signal, which must be text."""
    if not isinstance(name, str) or not name or "#" in name:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"the name of a {kind} must be text without '#', got {name!r}")
    return name


def checked_step(name: str) -> str:
    """The name of a step, which is none of those that undo others."""
    if checked_name("step", name).startswith(UNDOING):
        raise InvalidInput(f"names of steps that begin with {UNDOING!r} are taken, got {name!r}")
    return name


def not_inside(what: str, job_id: str) -> WrongState:
    """Why a job does not leave its worker inside a step."""
    return WrongState(
        f"{what} was called inside a step of job {job_id}: the job would leave its worker before "
        "the step is stored, so it belongs beside the step"
    )


def must_come(due_ms: float, what: str) -> None:
    """Refuse an instant that has no place in the order of delayed jobs."""
    if due_ms > LAST_DUE_MS:
        raise InvalidOption(f"{what} must come before {instant(LAST_DUE_MS):%Y-%m-%d}")


def child_id(job: JobFields, step: str) -> str:
    """The id of a child that a handler runs, which no other job of any handler has.

    It holds what makes it the one that it is: the parent, the name, and which life of the parent.
    """
    name, _, number = step.partition("#")
    life = known(job, b"gen")
    parts = [job.id.translate(_ESCAPED), name.translate(_ESCAPED)]
    parts += [number or "1"] if number or life else []
    return "~".join([*parts, life.decode()] if life else parts)


def refuse_unchildlike(given: JobKeywords) -> None:
    """Refuse options that a child which its parent waits for cannot have."""
    for name in _NO_CHILD_HAS:
        if (value := given.get(name)) not in (None, False):
            raise InvalidOption(
                f"run_child takes no {name}, got {value!r}: a child is its parent's own, has "
                "an id made of the parent's, and its failure is raised there"
            )
