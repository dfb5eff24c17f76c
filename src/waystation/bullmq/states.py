"""Where a job can be."""

from collections.abc import Iterable
from typing import Literal, TypeAlias, cast, get_args

from waystation.core.errors import InvalidOption

State: TypeAlias = Literal[
    "waiting", "active", "prioritized", "delayed", "waiting-children", "completed", "failed"
]
JobState: TypeAlias = State | Literal["unknown"]
"""Where one job is; `unknown` when it is nowhere."""

STATES: tuple[State, ...] = get_args(State)

_ALSO_CALLED = {"wait": "waiting", "paused": "waiting", "waiting_children": "waiting-children"}


def known(states: str | Iterable[str]) -> list[State]:
    """The states that are meant, each once."""
    named = [states] if isinstance(states, str) else states
    meant = [_ALSO_CALLED.get(name, name) if isinstance(name, str) else name for name in named]  # pyright: ignore[reportUnnecessaryIsInstance]
    for state in meant:
        if state not in STATES:
            raise InvalidOption(f"a state is one of {', '.join(STATES)}, got {state!r}")
    return cast(list[State], list(dict.fromkeys(meant)))
