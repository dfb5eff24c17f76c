"""What is kept of an error: a reason that says something, and a traceback that begins with it."""

import traceback
from typing import Any, cast

import pytest

from waystation.core.durations import parse_duration
from waystation.core.errors import InvalidOption, TimedOut
from waystation.core.failure import cut_own_frames, message_of, reason_text, trace_text
from waystation.core.options import at_least
from waystation.core.runtime.handlers import handler_of


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("nothing to say")


class Eloquent(KeyError):
    def __str__(self) -> str:
        return f"no such setting: {self.args[0]}"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("no such address"), "no such address"),
        (KeyError("email"), "KeyError: 'email'"),
        (KeyError("email", 1), "('email', 1)"),
        (Eloquent("email"), "no such setting: email"),
        (ValueError(), "ValueError"),
        (AssertionError(), "AssertionError"),
        (SystemExit(1), "SystemExit: 1"),
        (ValueError({"a": 1}), "ValueError: {'a': 1}"),
        (FileNotFoundError(2, "No such file or directory"), "[Errno 2] No such file or directory"),
        (TimedOut("the handler was stopped after 3 s"), "the handler was stopped after 3 s"),
        (Mute(), "Mute"),
        (ValueError("\ud800"), "\\ud800"),
    ],
)
def test_a_reason_is_the_message_with_the_class_where_that_says_nothing(
    error: BaseException, reason: str
) -> None:
    assert reason_text(error) == reason


def test_an_error_that_cannot_be_printed_has_a_traceback_all_the_same() -> None:
    assert message_of(Mute()) == ""
    assert "Mute" in trace_text(Mute())


def test_only_our_frames_at_the_head_are_cut() -> None:
    def theirs() -> None:
        at_least("attempts", 0, 1)

    with pytest.raises(InvalidOption) as caught:
        theirs()
    cut_own_frames(caught.value)
    assert [frame.name for frame in frames(caught.value)] == [
        "test_only_our_frames_at_the_head_are_cut",
        "theirs",
        "at_least",
    ]


async def test_our_frames_between_those_of_others_are_cut() -> None:
    handler = handler_of(charge)
    try:
        with pytest.raises(KeyError) as caught:
            await handler.run({"name": "ada"})
    finally:
        await handler.close()
    cut_own_frames(caught.value)
    assert [frame.name for frame in frames(caught.value)] == [
        "test_our_frames_between_those_of_others_are_cut",
        "charge",
    ]


def test_an_error_of_ours_needs_no_frames_and_a_mistake_of_ours_keeps_them() -> None:
    with pytest.raises(InvalidOption) as ours:
        at_least("attempts", 0, 1)
    with pytest.raises(AttributeError) as mistake:
        parse_duration(cast(Any, None))
    assert [frame.name for frame in without_ours(ours.value)] == []
    assert [frame.name for frame in without_ours(mistake.value)] == ["parse_duration"]


async def test_the_traceback_of_another_process_begins_with_its_function() -> None:
    handler = handler_of(charge, process=True)
    try:
        with pytest.raises(KeyError) as caught:
            await handler.run({"name": "ada"})
    finally:
        await handler.close()
    without_ours(caught.value)
    lines = trace_text(caught.value).splitlines()
    assert lines[0] == "KeyError: 'email'"
    assert lines[1] == "Traceback (most recent call last):"
    assert lines[2].endswith("in charge")


def charge(work: dict[str, str]) -> str:
    return work["email"]


def without_ours(error: BaseException) -> list[traceback.FrameSummary]:
    """The frames that are left when only our own code was on the way."""
    assert error.__traceback__ is not None
    error.__traceback__ = error.__traceback__.tb_next
    cut_own_frames(error)
    return frames(error)


def frames(error: BaseException) -> list[traceback.FrameSummary]:
    return list(traceback.extract_tb(error.__traceback__))
