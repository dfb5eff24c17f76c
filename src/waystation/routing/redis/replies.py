"""What the scripts of routing reply, read."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from waystation.core.store.script import texts


class Settlement(NamedTuple):
    """What came of settling and claiming."""

    codes: Sequence[int]
    """0 for each outcome that counts, else why it does not."""
    claims: Sequence[bytes]
    """An id and the job's JSON for each job claimed, in turn."""
    limited_ms: int
    """How long a limit per minute keeps fitting jobs back; 0 when none does."""
    due_in_ms: int | None
    """How long until the next delayed job is due; None when there is none."""
    woken: str
    """The last wake-up that this call knows of."""
    unread: bool
    """Whether there are signatures that the worker has not been held against yet."""


class Look(NamedTuple):
    """Who has something to do."""

    found: list[tuple[int, bytes]]
    """The place of each worker that has, and a signature that it could serve."""
    limited_ms: int
    due_in_ms: int | None
    woken: str
    """These three as in a settlement."""


def settlement(answer: Any) -> Settlement:
    """What came of settling and claiming."""
    codes, claims, limited_ms, due_in, woken, unread = answer
    return Settlement(
        codes, claims, int(limited_ms), _due_in_ms(due_in), woken.decode(), bool(unread)
    )


def look(answer: Any) -> Look:
    """Who has something to do."""
    found, limited_ms, due_in, woken = answer
    pairs = list(zip(found[::2], found[1::2], strict=True))
    return Look(pairs, int(limited_ms), _due_in_ms(due_in), woken.decode())


def _due_in_ms(text: bytes) -> int | None:
    # A job that others have put off for ever is never due.
    return int(float(text)) if text and math.isfinite(float(text)) else None


class Added(NamedTuple):
    """What came of a job that was to be added."""

    id: str
    """The id of the job that there is now."""
    data: bytes = b""
    """Its data, if it was there before and has not ended."""


def added(answer: Sequence[bytes | Sequence[bytes]]) -> list[Added]:
    """The job that there is now for each."""
    return [
        Added(each.decode()) if isinstance(each, bytes) else Added(each[0].decode(), each[1])
        for each in answer
    ]


class Page(NamedTuple):
    """What one bounded step did, and where the next one goes on."""

    names: list[str]
    cursor: int
    given_up: Sequence[str] = ()
    """Those of them that are dead now."""


def page(answer: Any) -> Page:
    """What one bounded step did."""
    names, cursor, *given_up = answer
    return Page(texts(names), int(cursor), texts(given_up[0]) if given_up else ())
