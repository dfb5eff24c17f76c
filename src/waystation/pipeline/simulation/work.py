"""Work: attempts as they were recorded, to be simulated."""

import csv
import datetime as dt
import heapq
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TextIO

import msgspec

from waystation.core.errors import InvalidInput

ROUNDED_S = 0.002
"""By how much rounding to milliseconds may move two instants towards each other."""


class Attempt(NamedTuple):
    """One attempt of a job, as it was recorded; all instants in seconds."""

    job: str
    number: int
    """1 for the first attempt of a job."""
    ready: float
    """When it could have been claimed."""
    wait: float
    run: float
    priority: int = 0
    """As BullMQ has it: 0 comes first, then 1 and so on."""


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """Attempts as columns; instants are seconds since the first of them was ready."""

    ready: list[float]
    runs: list[float]
    waits: list[float]
    """The waits that were recorded."""
    has_waits: bool = True
    """Whether waits were recorded; without, they are all 0."""
    priorities: list[int]
    follows: list[int]
    """The attempt that follows on each one, -1 where none does."""
    pauses: list[float]
    """Seconds from the end of each attempt until the one that follows was ready."""
    firsts: list[int]
    """Attempts that follow on none, in the order in which they became ready."""
    start: float
    """The instant of 0, in seconds since 1970."""

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def span_s(self) -> float:
        """Seconds from the first instant to the last recorded end."""
        rows = zip(self.ready, self.waits, self.runs, strict=True)
        return max((sum(each) for each in rows), default=0.0)

    @property
    def most_at_once(self) -> int:
        """The most attempts that ran at the same time."""
        ends: list[float] = []
        most = 0
        rows = zip(self.ready, self.waits, self.runs, strict=True)
        for start, run in sorted((ready + wait, run) for ready, wait, run in rows):
            while ends and ends[0] <= start:
                heapq.heappop(ends)
            # A worker's next job may seem to begin before the end of the one before it.
            heapq.heappush(ends, start + max(run - ROUNDED_S, run / 2))
            most = max(most, len(ends))
        return most


def recorded(attempts: Iterable[Attempt], *, has_waits: bool = True) -> Work:
    """Work from attempts; a later attempt of a job waits for the end of the one before."""
    rows = sorted(attempts, key=lambda each: (each.job, each.ready, each.number))
    start = min((each.ready for each in rows), default=0.0)
    follows, pauses = [-1] * len(rows), [0.0] * len(rows)
    firsts: list[int] = []
    for at, each in enumerate(rows):
        before = rows[at - 1] if at else None
        # A number that does not grow is another job with the same id.
        if before and before.job == each.job and before.number < each.number:
            follows[at - 1] = at
            pauses[at - 1] = max(0.0, each.ready - (before.ready + before.wait + before.run))
        else:
            firsts.append(at)
    ready = [each.ready - start for each in rows]
    return Work(
        ready=ready,
        runs=[each.run for each in rows],
        waits=[each.wait for each in rows],
        has_waits=has_waits,
        priorities=[each.priority for each in rows],
        follows=follows,
        pauses=pauses,
        firsts=sorted(firsts, key=ready.__getitem__),
        start=start,
    )


def from_csv(lines: TextIO) -> Work:
    """Work from a CSV file with the columns `ready` and `run`, and perhaps `wait`, `priority`."""
    rows = csv.DictReader(lines)
    names = rows.fieldnames or ()
    if not {"ready", "run"} <= set(names):
        found = ", ".join(names) or "none"
        raise InvalidInput(f"wanted a CSV file with the columns ready and run, got {found}")
    attempts = (_attempt(number, row) for number, row in enumerate(rows, start=2))
    return recorded(attempts, has_waits="wait" in names)


def _attempt(line: int, row: Mapping[str, str | None]) -> Attempt:
    try:
        return Attempt(
            job=str(line),
            number=1,
            ready=_instant(row["ready"] or ""),
            wait=_not_negative(row.get("wait") or "0"),
            run=_not_negative(row["run"] or ""),
            priority=int(row.get("priority") or 0),
        )
    except ValueError as error:
        raise InvalidInput(f"line {line} cannot be read: {error}") from None


def _not_negative(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError(f"wanted seconds, got {text}")
    return value


def _instant(text: str) -> float:
    """Seconds since 1970, from that or from ISO 8601."""
    try:
        return _not_negative(text)
    except ValueError:
        found = dt.datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=dt.UTC)).timestamp()
