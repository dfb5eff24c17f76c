"""Turns: rounds may share a history with each other, maintenance shares it with nobody.

What a round commits is checked against what others have committed meanwhile. A table that is
deleted, or whose log is cut, has nothing to check against: so whoever does that is alone.
"""

import fcntl
import os
import socket
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from waystation.core.errors import InvalidInput, WrongState
from waystation.pipeline.storage.arrow import fs
from waystation.pipeline.storage.places import filesystem, is_remote

PATIENCE_S = 600.0
"""How long somebody waits for others to finish."""
_PAUSE_S = 0.05
_NEXT, _TURN = "_next.lock", "_turn.lock"

P = ParamSpec("P")
R = TypeVar("R")


class HasRoot(Protocol):
    """A history."""

    root: str


H = TypeVar("H", bound=HasRoot)


@contextmanager
def shared_turn(root: str, what: str) -> Generator[None]:
    """A turn that others may have at the same time, unless one of them must be alone."""
    with _turn(root, what, fcntl.LOCK_SH):
        yield


def alone(
    what: str,
) -> Callable[[Callable[Concatenate[H, P], R]], Callable[Concatenate[H, P], R]]:
    """Let a function change a history while nobody else does; refuses a place without one."""

    def decorate(
        change: Callable[Concatenate[H, P], R],
    ) -> Callable[Concatenate[H, P], R]:
        @wraps(change)
        def changed(history: H, *args: P.args, **kwargs: P.kwargs) -> R:
            files, place = filesystem(history.root)
            if not files.get_file_info(fs.FileSelector(place, allow_not_found=True)):
                raise InvalidInput(f"there is no history at {history.root}")
            with _turn(history.root, what, fcntl.LOCK_EX):
                return change(history, *args, **kwargs)

        return changed

    return decorate


@contextmanager
def _turn(root: str, what: str, kind: int) -> Generator[None]:
    if is_remote(root):
        # Object stores have no locks that end with their holder.
        yield
        return
    os.makedirs(root, exist_ok=True)
    deadline = time.monotonic() + PATIENCE_S
    # Whoever waits is next, however many rounds follow each other.
    with open(f"{root}/{_NEXT}", "a") as waiting, open(f"{root}/{_TURN}", "a+") as turn:
        _lock(waiting.fileno(), fcntl.LOCK_EX, deadline, turn.name, what)
        _lock(turn.fileno(), kind, deadline, turn.name, what)
        fcntl.flock(waiting, fcntl.LOCK_UN)
        turn.truncate(0)
        turn.write(f"{what} of process {os.getpid()} on {socket.gethostname()}")
        turn.flush()
        yield


def _lock(file: int, kind: int, deadline: float, note: str, what: str) -> None:
    while True:
        try:
            return fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                with open(note) as written:
                    raise WrongState(
                        f"{what} has waited {PATIENCE_S:g} s for the {written.read()}, which "
                        "changes the same history. Nothing was done; start again when it has ended"
                    ) from None
            time.sleep(_PAUSE_S)
