"""States that a job can be in."""

from collections.abc import Iterable
from typing import Literal, TypeAlias, cast, get_args

from waystation.core.errors import InvalidOption

State: TypeAlias = Literal[
    "waiting", "active", "prioritized", "delayed", "waiting-children", "completed", "failed"
]
"""A state that holds jobs."""
JobState: TypeAlias = State | Literal["unknown"]
"""The state of one job; `unknown` when there is no such job."""

STATES: tuple[State, ...] = get_args(State)

SET_ASIDE = "paused"
"""What BullMQ calls the waiting jobs that its version 5 set aside when it paused the queue."""

_ALSO_CALLED = {"wait": "waiting", "waiting_children": "waiting-children"}


def known_states(states: str | Iterable[str]) -> list[State]:
    """The states of these names, each once; `wait` is another name of `waiting`.

    `paused` means what it means to Node: what BullMQ 5 set aside, and no other waiting job.
    """
    named = [states] if isinstance(states, str) else states
    meant = [_ALSO_CALLED.get(name, name) if isinstance(name, str) else name for name in named]  # pyright: ignore[reportUnnecessaryIsInstance]
    for state in meant:
        if state not in STATES and state != SET_ASIDE:
            raise InvalidOption(f"a state is one of {', '.join(STATES)}, got {state!r}")
    return cast(list[State], list(dict.fromkeys(meant)))
