"""Failures: the reason and the traceback that are kept of an error."""

import traceback
from pathlib import Path
from types import TracebackType

from waystation.core.errors import WaystationError

LONGEST_MESSAGE = 10_000
"""Characters that are kept of what an error says."""

LONGEST_TRACE = 50_000
"""Characters that are kept of a traceback."""

_HOME = str(Path(__file__).parents[1])
_HEAD_OF_TRACE = "Traceback (most recent call last)"


def reason_text(error: BaseException) -> str:
    """The error's message, which is what Node keeps, with the class where that says nothing.

    It says nothing when it is empty, or only shows a value: `KeyError: 'email'`, `SystemExit: 1`.
    """
    name, text = type(error).__name__, message_of(error)
    if not text:
        return name
    return f"{name}: {text}" if _is_a_value(error, text) else text


def message_of(error: BaseException, longest: int = LONGEST_MESSAGE) -> str:
    """What an error says, in characters that can be stored; empty if it cannot say anything.

    Of a message that nobody would read to the end, the beginning is enough.
    """
    try:
        text = str(error)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return ""
    left_out = len(text) - longest
    return _storable(text if left_out <= 0 else f"{text[:longest]}{_note(left_out)}")


def trace_text(error: BaseException, *, limit: int | None = None) -> str:
    """The traceback as Python prints it; of each error in it at most so many frames, the last.

    Of a long one the beginning and the end are kept.
    """
    last = None if limit is None else -limit
    try:
        text = "".join(traceback.format_exception(error, limit=last))
    except Exception:
        return type(error).__name__
    left_out, half = len(text) - LONGEST_TRACE, LONGEST_TRACE // 2
    return _storable(text if left_out <= 0 else f"{text[:half]}{_note(left_out)}\n{text[-half:]}")


def cut_own_frames(error: BaseException) -> None:
    """Let the traceback begin with the first frame that is not ours, and have none in between.

    Those of ours at its end stay, because they say where an error was raised. Where all of them are
    ours, an error of ours says enough without them, and any other is a mistake of ours.
    """
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        theirs = _first_of_others(link.__traceback__)
        if theirs is not None or isinstance(link, WaystationError) or _has_trace_as_note(link):
            link.__traceback__ = theirs
        link = link.__cause__ or link.__context__


def note_trace(error: BaseException) -> None:
    """Write the traceback into a note, which also gets to other processes."""
    cut_own_frames(error)
    error.add_note(trace_text(error).rstrip("\n"))


def _has_trace_as_note(error: BaseException) -> bool:
    notes: list[str] = getattr(error, "__notes__", [])
    return any(note.startswith(_HEAD_OF_TRACE) for note in notes)


def _first_of_others(trace: TracebackType | None) -> TracebackType | None:
    first = here = _next_of_others(trace)
    while here is not None:
        following = _next_of_others(here.tb_next)
        if following is not None:
            here.tb_next = following
        here = following
    return first


def _next_of_others(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_HOME):
        trace = trace.tb_next
    return trace


def _is_a_value(error: BaseException, text: str) -> bool:
    if len(error.args) != 1:
        return False
    (value,) = error.args
    try:
        return text == repr(value) or (not isinstance(value, str) and text == str(value))
    except KeyboardInterrupt:
        raise
    except BaseException:
        return False


def _note(left_out: int) -> str:
    return f" … ({left_out:,} more characters)"


def _storable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
