"""Batches: what waits for a slot until enough of it goes to the handler together."""

import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Generic, TypeVar

import msgspec

from waystation.core.runtime.claim import Claim

W = TypeVar("W")


class Batching(msgspec.Struct, Generic[W], frozen=True, kw_only=True):
    """What makes a batch."""

    by: Callable[[W], Hashable] | None = None
    """Only work with the same answer goes together; None means any."""
    least: int = 1
    """So much is waited for."""
    wait_s: float = 0.0
    """What has waited so long goes with what is there."""


class Batches(Generic[W]):
    """Claims in lines, one for each key, each in the order in which they came.

    The line that has stood for longest without being served is looked at first, so that those which
    are always full keep none from its turn.
    """

    def __init__(
        self, most: int, rule: Batching[W], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._rule = rule
        self._clock = clock
        self._lines: dict[Hashable, deque[tuple[float, Claim[W]]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def __iter__(self) -> Iterator[Claim[W]]:
        """All claims, the oldest first; of those that came together, the lines one by one."""
        entries = [entry for line in self._lines.values() for entry in line]
        return iter([claim for _, claim in sorted(entries, key=lambda entry: entry[0])])

    def extend(self, claims: Sequence[Claim[W]]) -> None:
        """Let these wait."""
        now = self._clock()
        for claim in claims:
            self._lines.setdefault(self._key(claim), deque()).append((now, claim))

    def remove(self, claim: Claim[W]) -> None:
        """Let one wait no more."""
        key = self._key(claim)
        line = self._lines[key]
        line.remove(next(entry for entry in line if entry[1] is claim))
        if not line:
            del self._lines[key]

    def clear(self) -> None:
        """Let none wait."""
        self._lines.clear()

    def take(self, *, may_grow: bool) -> list[Claim[W]]:
        """The next batch; none while all that wait may grow to the least and have time for it."""
        overdue = self._clock() - self._rule.wait_s
        for key, line in self._lines.items():
            if not may_grow or len(line) >= self._rule.least or line[0][0] <= overdue:
                del self._lines[key]
                taken = [line.popleft()[1] for _ in range(min(self._most, len(line)))]
                if line:
                    self._lines[key] = line
                return taken
        return []

    def next_in_s(self) -> float:
        """In how many seconds the next batch goes, if nothing comes before."""
        oldest = min(line[0][0] for line in self._lines.values())
        return max(0.0, oldest + self._rule.wait_s - self._clock())

    def _key(self, claim: Claim[W]) -> Hashable:
        return self._rule.by and self._rule.by(claim.work)
