"""What was asked for and what came of it; the judge of every chaos run."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple


class Verdict(NamedTuple):
    """What is wrong with a history; empty everywhere when nothing is."""

    lost: list[str]
    """Acknowledged, and never ended."""
    duplicated: list[str]
    """Ended more than once."""
    unexpected: list[str]
    """Ended, and never asked for."""
    stale: list[str]
    """Ended by somebody who was not the last to claim it."""

    @property
    def is_clean(self) -> bool:
        """Whether everything ended exactly once."""
        return not any(self)


class History:
    """The work that was added, and the ends that were accepted."""

    def __init__(self) -> None:
        self._asked: set[str] = set()
        self._acknowledged: set[str] = set()
        self._ends: Counter[str] = Counter()
        self._claims: Counter[str] = Counter()
        self._stale: set[str] = set()

    def ask(self, id: str) -> None:
        """Somebody tries to add it; whether it arrived may never be known."""
        self._asked.add(id)

    def acknowledge(self, id: str) -> None:
        """The store said that it has it."""
        self._asked.add(id)
        self._acknowledged.add(id)

    @property
    def acknowledged(self) -> int:
        """How many the store said that it has."""
        return len(self._acknowledged)

    def end(self, ids: Iterable[str]) -> None:
        """An outcome was accepted for each of these."""
        self._ends.update(ids)

    def claim(self, id: str) -> None:
        """Somebody has claimed it."""
        self._claims[id] += 1

    def end_of_claim(self, id: str, number: int) -> None:
        """An outcome was accepted from whoever made this claim, the first being 1."""
        self._ends[id] += 1
        if number != self._claims[id]:
            self._stale.add(id)

    def verdict(self) -> Verdict:
        """Compare the two sides."""
        return Verdict(
            lost=sorted(self._acknowledged - self._ends.keys()),
            duplicated=sorted(id for id, times in self._ends.items() if times > 1),
            unexpected=sorted(self._ends.keys() - self._asked),
            stale=sorted(self._stale),
        )
